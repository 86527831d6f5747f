from pathlib import Path

import pytest

from tools.plumb.errors import PlumbError
from tools.plumb.plan import config as plan
from tools.plumb.pool import config
from tools.plumb.pool.config import Server, Slot

KNOWN = ("cpu", "b200", "h100")
TOML = """
[server]
port = 9000
cache = "5G"

[[pool]]
name = "cpu"
slots = 2
env = {A = "1"}

[[pool]]
name = "h100"
gpus = [0, 3]
start_seconds = 40
hosts = 2

[[pool]]
name = "b200"
simulated = true
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "pool.toml"
    file.write_text(text)
    return file


def test_a_slot_is_a_worker_with_its_gpu_its_name_and_its_environment(tmp_path: Path) -> None:
    found = config.read(written(tmp_path, TOML), KNOWN)

    assert found.server == Server(port=9000, cache="5G")
    assert found.slots == (
        Slot("cpu-0", "cpu", env={"A": "1"}),
        Slot("cpu-1", "cpu", env={"A": "1"}),
        Slot("h100-gpu0", "h100", 0),
        Slot("h100-gpu3", "h100", 3),
        Slot("b200-simulated-0", "b200", simulated=True),
    )
    assert found.pools == ("cpu", "h100", "b200")


def test_slots_that_share_a_gpu_say_so_and_every_gpus_first_comes_before_a_second(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, '[[pool]]\nname = "h100"\ngpus = [0, 3]\nslots_per_gpu = 2')

    assert config.read(file, KNOWN).slots == (
        Slot("h100-gpu0-0", "h100", 0, sharers=2),
        Slot("h100-gpu3-0", "h100", 3, sharers=2),
        Slot("h100-gpu0-1", "h100", 0, sharers=2),
        Slot("h100-gpu3-1", "h100", 3, sharers=2),
    )
    assert plan.read(file)["h100"].slots == 4


def test_the_same_file_serves_a_plan(tmp_path: Path) -> None:
    pools = plan.read(written(tmp_path, TOML))

    assert (pools["h100"].slots, pools["h100"].hosts, pools["h100"].start_seconds) == (2, 2, 40)
    assert (pools["cpu"].slots, pools["b200"].slots) == (2, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[pool]]\nname = "h10"', "no pool 'h10': did you mean 'h100'"),
        ('[[pool]]\nname = "x"', "there are cpu, b200, h100"),
        ('[[pool]]\nname = "h100"\ngpus = [0]\nsimulated = true', "is simulated and has gpus"),
        ('[[pool]]\nname = "h100"\ngpus = [0, 0]', "wanted their numbers, each once"),
        ('[[pool]]\nname = "h100"\ngpus = []', "wanted their numbers, each once"),
        ('[[pool]]\nname = "h100"\ngpus = [0]\nslots = 2', "a slot has one GPU"),
        ('[[pool]]\nname = "h100"\ngpus = [0]\nslots_per_gpu = 0', "wanted 1 to 64"),
        ('[[pool]]\nname = "h100"\ngpus = [0]\nslots_per_gpu = true', "wanted a whole number"),
        ('[[pool]]\nname = "h100"\nslots_per_gpu = 2', "slots_per_gpu and no gpus"),
        ('[[pool]]\nname = "h100"\nsimulated = 1', "wanted true or false"),
        ('[[pool]]\nname = "h100"\nslots = true', "wanted a whole number"),
        ('[[pool]]\nname = "h100"\nenv = {A = 1}', "env.A = 1, wanted a text"),
        ('[server]\nprot = 1\n[[pool]]\nname = "cpu"', "did you mean 'port'"),
        ('[server]\nport = 80\n[[pool]]\nname = "cpu"', "wanted 1024 to 65532"),
        (f'[server]\nport = 0x{"f" * 5000}\n[[pool]]\nname = "cpu"', "thousands of digits, wanted"),
        (f'[server]\nuser = 0x{"f" * 5000}\n[[pool]]\nname = "cpu"', "wanted a text"),
        (f'server = 0x{"f" * 5000}\n[[pool]]\nname = "cpu"', "thousands of digits, wanted a table"),
        ('[server]\nport = "80"\n[[pool]]\nname = "cpu"', "wanted a whole number"),
        ('[server]\ncache = "5"\n[[pool]]\nname = "cpu"', "wanted such as '20G'"),
        ('[server]\ncache = "99M"\n[[pool]]\nname = "cpu"', "'100M' at least"),
        ('[server]\nuser = ""\n[[pool]]\nname = "cpu"', "user = '', wanted the name of one"),
        ('[server]\naudience = ""\n[[pool]]\nname = "cpu"', "audience = '', wanted a word"),
        ('[[pool]]\nname = "cpu"\nenv = {"A=B" = "1"}', "env.'A=B', wanted a name of letters"),
        ('[[pool]]\nname = "cpu"\nenv = {A = "\\u0000"}', "env.A = '\\x00', wanted a text without"),
        ('[[pool]]\nname = "h100"\nenv = {CUDA_VISIBLE_DEVICES = "1"}', "say `gpus`"),
        ('[server]\nsecurity = "x"\n[[pool]]\nname = "cpu"', "wanted one of none, tls, jwt"),
        ('[server]\naddress = "host"\n[[pool]]\nname = "cpu"', "wanted an IP address"),
        ('server = 1\n[[pool]]\nname = "cpu"', "wanted a table"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_wanted(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PlumbError) as raised:
        config.read(written(tmp_path, text), KNOWN)

    assert said in str(raised.value)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1"])
def test_no_address_that_others_reach_is_listened_at_without_security(
    tmp_path: Path, address: str
) -> None:
    text = f'[server]\naddress = "{address}"\n[[pool]]\nname = "cpu"\n'

    with pytest.raises(PlumbError, match="whoever reaches that address could run programs here"):
        config.read(written(tmp_path, text), KNOWN)

    secured = text.replace("[[pool]]", 'security = "tls"\n[[pool]]')
    assert config.read(written(tmp_path, secured), KNOWN).server.scheme == "grpcs"


def test_a_machine_without_a_file_gives_its_cores_and_its_gpus() -> None:
    found = config.of_machine({"sm90": [0, 1], "sm70": [2]}, {"cpu": "cpu", "h100": "sm90"})

    assert [slot.gpu for slot in found.slots if slot.pool == "h100"] == [0, 1]
    assert len([slot for slot in found.slots if slot.pool == "cpu"]) >= 2
    assert found.pools == ("cpu", "h100")
    assert found.server.address == "127.0.0.1"


@pytest.mark.parametrize(
    ("address", "reached"),
    [
        ("127.0.0.2", "127.0.0.2"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "::1"),
        ("0:0::0", "::1"),
        ("192.0.2.7", "192.0.2.7"),
    ],
)
def test_a_server_is_reached_at_an_address_of_its_own(address: str, reached: str) -> None:
    assert Server(address=address).reached_at == reached
