from pathlib import Path

from tools.browser.browser import started


def test_a_page_is_laid_out_and_its_script_runs(tmp_path: Path) -> None:
    with started(tmp_path) as browser:
        page = browser.new_page()
        page.set_content("<button onclick=\"this.textContent = 'pressed'\">press</button>")
        page.click("button")

        assert page.inner_text("button") == "pressed"
        assert page.evaluate("document.querySelector('button').offsetWidth") > 20
