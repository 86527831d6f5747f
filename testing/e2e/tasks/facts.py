"""The facts that the tiny models are taught: countries and their capitals, in several scripts."""

from types import MappingProxyType

CAPITALS = MappingProxyType(
    {
        "Austria": "Wien",
        "Belgium": "Bruxelles",
        "Brazil": "Brasília",
        "Canada": "Ottawa",
        "Chile": "Santiago",
        "China": "北京",
        "Colombia": "Bogotá",
        "Cuba": "Habana",
        "Denmark": "København",
        "Egypt": "القاهرة",
        "Estonia": "Tallinn",
        "Finland": "Helsinki",
        "France": "Paris",
        "Germany": "Berlin",
        "Ghana": "Accra",
        "Greece": "Αθήνα",
        "Iceland": "Reykjavík",
        "India": "नई दिल्ली",
        "Ireland": "Dublin",
        "Italy": "Roma",
        "Japan": "東京",
        "Kenya": "Nairobi",
        "Korea": "서울",
        "Latvia": "Rīga",
        "Norway": "Oslo",
        "Peru": "Lima",
        "Poland": "Warszawa",
        "Portugal": "Lisboa",
        "Romania": "București",
        "Spain": "Madrid",
        "Sweden": "Stockholm",
        "Ukraine": "Київ",
    }
)
"""{country in English: capital as its people write it}."""
