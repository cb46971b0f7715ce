"""Claims about the page of `fa1lab trace` as a person in a browser meets it.

Usage   browser_test.py --program FA1LAB --folder FOLDER [unittest's arguments]
        Pages and screenshots go to FOLDER.
Needs   Debian's chromium, chromium-driver and python3-selenium. Without them the status is 4, which
        CMakeLists.txt tells ctest to count as skipped.
Says    the browser is the one that is installed, without network; what is expected on the screen comes
        from `fa1lab trace --json` or is written here, never from the page itself
"""
import argparse
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import time
import unittest
import zlib

SKIPPED = 4
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

WAIT = 30.0  # seconds until a hang is given up
OPTIONS = None


def missing():
    have = {"chromium": CHROMIUM, "chromium-driver": DRIVER, "python3-selenium": webdriver}
    return [package for package, found in have.items() if not found]


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    # Root, as which CI runs, has no sandbox; a container's /dev/shm may be small.
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--no-first-run", "--disable-background-networking"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(service=Service(DRIVER), options=options)
    browser.set_page_load_timeout(WAIT)
    return browser


def shown(x):
    """A number of the records as the page writes it in decimal."""
    if isinstance(x, str):
        return {"NaN": "NaN", "Infinity": "inf", "-Infinity": "-inf"}[x]
    return repr(x)[:-2] if repr(x).endswith(".0") else repr(x)


def as_float(x):
    """The float that a shortest decimal stands for."""
    return struct.unpack("f", struct.pack("f", x))[0]


def pixels(png):
    """Width, height and the raw bytes of an image."""
    width, height = struct.unpack(">II", png[16:24])
    data, at = b"", 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + length]
        at += 12 + length
    return width, height, zlib.decompress(data)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = start_browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()

    def setUp(self):
        self.look(1280, 800)

    # --- helpers ----------------------------------------------------------------------------------

    def look(self, width, height, dark=False, still=True):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}]})

    def open(self, what, *options):
        """Makes the page and opens it; the records as the program prints them."""
        page = OPTIONS.folder / (what.replace(" ", "_").replace("=", "") + ".html")
        words = [OPTIONS.program, "trace", what, *options]
        made = subprocess.run([*words, "--out", page], capture_output=True, text=True, timeout=WAIT)
        self.assertIn(made.returncode, (0, 1), made.stderr)
        printed = subprocess.run([*words, "--json"], capture_output=True, text=True, timeout=WAIT)
        for kind in ("browser", "performance"):
            self.browser.get_log(kind)  # what came before is another test's
        self.browser.get(page.as_uri())
        records = [json.loads(line) for line in printed.stdout.splitlines()]
        self.head = records[0]
        return [record for record in records if record["what"] == "step"]

    def press(self, key):
        self.browser.switch_to.active_element.send_keys(key)

    def text(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector).text

    def texts(self, selector):
        return [element.text for element in self.browser.find_elements(By.CSS_SELECTOR, selector)]

    def step(self):
        return int(self.browser.execute_script("return document.body.dataset.step"))

    def red(self):
        """The red numbers, and the sentence."""
        cells = self.browser.find_elements(By.CSS_SELECTOR, "main .bad")
        return [cell for cell in cells if cell.is_displayed()], self.text("#bad")

    def screenshot(self, name):
        png = self.browser.get_screenshot_as_png()
        (OPTIONS.folder / (name + ".png")).write_bytes(png)
        return pixels(png)

    # --- claims -----------------------------------------------------------------------------------

    def test_opens_without_a_console_error_and_without_the_network(self):
        self.open("n_q=8 n_kv=12 d=4", "--kernel", "fa1.Br4xBc2")

        self.press(Keys.END)

        self.assertEqual(self.browser.get_log("browser"), [])
        asked = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        addresses = [event["params"]["request"]["url"] for event in asked
                     if event["method"] == "Network.requestWillBeSent"]
        self.assertGreater(len(addresses), 0)  # the page itself
        for address in addresses:
            self.assertTrue(address.startswith(("file:", "data:")), address)

    def test_steps_through_to_the_end_by_keyboard(self):
        steps = self.open("n_q=5 n_kv=7 d=2", "--kernel", "fa1.Br4xBc2")

        for expected in steps:
            self.assertEqual(self.step(), expected["step"])
            self.assertEqual(self.text("#sentence"), expected["says"])
            self.assertEqual(self.texts("#lines .now") != [], True)
            self.press(Keys.ARROW_RIGHT)

        self.assertEqual(self.step(), len(steps) - 1)  # there is nothing beyond the end
        self.press(Keys.ARROW_LEFT)
        self.assertEqual(self.step(), len(steps) - 2)
        self.press(Keys.HOME)
        self.assertEqual(self.step(), 0)
        self.press(Keys.END)
        self.assertEqual(self.step(), len(steps) - 1)

    def test_the_final_O_on_the_screen_is_that_of_the_records(self):
        for what, kernel in (("ascending-every-tile", "fa1.Br1xBc1"),
                             ("n_q=6 n_kv=7 d=4 dv=1 seed=3", "fa1.Br4xBc2"),
                             ("n_q=3 n_kv=5 d=2 dv=1 seed=5", "mutant.no_alpha_on_O.Br4xBc2")):
            with self.subTest(what):
                steps = self.open(what, "--kernel", kernel)
                last = steps[-1]["tile"]
                final = [row[0] for step in steps if step["phase"] == "output" and step["tile"] == last
                         for row in step["O"]]

                self.press(Keys.END)
                decimal = self.texts("#hbm-O td")
                self.press("h")
                hexadecimal = self.texts("#hbm-O td")

                self.assertEqual(len(final), self.head["n_q"])
                self.assertEqual(decimal, [shown(x) for x in final])
                self.assertEqual([float.fromhex(x) for x in hexadecimal], [as_float(x) for x in final])

    def test_fa2_and_standard_are_stepped_to_the_end_and_leave_the_kernels_O(self):
        for kernel in ("fa2.Br4xBc2", "standard.Br4xBc2"):
            with self.subTest(kernel):
                steps = self.open("n_q=6 n_kv=7 d=4 dv=1 seed=3", "--kernel", kernel)
                final = [row[0] for step in steps if step["phase"] == "finish" for row in step["O"]]

                for expected in steps:
                    self.assertEqual(self.step(), expected["step"])
                    self.assertEqual(self.text("#sentence"), expected["says"])
                    self.assertNotEqual(self.texts("#lines .now"), [])
                    self.press(Keys.ARROW_RIGHT)

                self.assertEqual(len(final), self.head["n_q"])
                self.assertEqual(self.texts("#hbm-O td"), [shown(x) for x in final])
                self.assertIn(f"read {self.head['traffic']['total'][0]} of", self.text("#traffic"))
                self.assertEqual(self.red(), ([], ""))
                self.assertEqual(self.browser.get_log("browser"), [])

    def test_every_variant_is_drawn_to_its_end(self):
        for kernel in ("fa1_element.Br16xBc1", "fa1_paper.Br4xBc2", "fa1_deferred.Br4xBc2",
                       "online_softmax.Br4xBc2", "split_kv.Br4xBc2", "lazy_rescale.Br4xBc2"):
            with self.subTest(kernel):
                steps = self.open("n_q=5 n_kv=7 d=4 dv=1 seed=3", "--kernel", kernel)
                final = {}
                for step in steps[1:]:
                    for row, O in enumerate(step.get("O", [])):
                        final[step["rows"][0] + row] = O[0]

                for _ in steps:
                    self.press(Keys.ARROW_RIGHT)

                self.assertEqual(self.step(), len(steps) - 1)
                self.assertEqual(self.texts("#hbm-O td"), [shown(final[row]) for row in range(5)])
                self.assertEqual(self.browser.get_log("browser"), [])

    def test_a_kernel_that_sums_is_judged_where_its_O_is_stored(self):
        steps = self.open("n_q=1 n_kv=4 d=1 K=-inf*2,0*2 Q=1* scale=1", "--kernel", "fa2.Br4xBc2")

        for step in steps[:-1]:
            self.assertEqual(self.red(), ([], ""), f"red already at step {self.step()}")
            self.press(Keys.ARROW_RIGHT)
        cells, sentence = self.red()

        self.assertEqual(steps[-1]["phase"], "finish")
        self.assertGreater(len(cells), 0)
        self.assertIn("the exponential of -inf + inf", sentence)

    def test_every_number_of_a_row_can_be_read(self):
        steps = self.open("n_q=8 n_kv=6 d=8", "--kernel", "fa1.Br8xBc4")
        output = next(step for step in steps if step["phase"] == "output")
        scores = next(step for step in steps if step["phase"] == "scores")
        softmax = next(step for step in steps if step["phase"] == "max and denominator")
        self.browser.find_element(By.CSS_SELECTOR, "#all-numbers summary").click()
        while self.step() < output["step"]:
            self.press(Keys.ARROW_RIGHT)

        for row in range(output["rows"][1]):
            self.assertEqual(self.text("#row-name"), f"Row {row}")
            own, tile = (table.find_elements(By.CSS_SELECTOR, "tr") for table in
                         self.browser.find_elements(By.CSS_SELECTOR, "#numbers table"))
            of = {line.find_element(By.TAG_NAME, "th").text: [cell.text for cell in line.find_elements(By.TAG_NAME, "td")]
                  for line in own + tile}
            self.assertEqual(of["O after"], [shown(x) for x in output["O"][row]])
            self.assertEqual(of["sum p v"], [shown(x) for x in output["pv"][row]])
            for key in range(output["keys"][1]):
                self.assertEqual(of[str(key)][:2], [shown(scores["S"][row][key]), shown(softmax["p"][row][key])])
            self.press(Keys.ARROW_DOWN)

    def test_the_panel_shows_the_carries_before_and_after(self):
        steps = self.open("n_q=2 n_kv=4 d=2 seed=2", "--kernel", "fa1.Br4xBc2")
        first, second = (step for step in steps if step["phase"] == "max and denominator")
        while self.step() < second["step"]:
            self.press(Keys.ARROW_RIGHT)

        cells = self.texts("#carries tbody td")

        self.assertEqual(cells[:6], [shown(first["m"][0]), shown(second["m"][0]), "", shown(second["alpha"][0]),
                                     shown(first["l"][0]), shown(second["l"][0])])
        self.assertIn(f"read {second['so_far'][0]} of", self.text("#traffic"))

    def test_the_red_mark_appears_on_the_right_step(self):
        for case, tile, phase, quantity, place, why in (
                ("inf-first-tile", 0, "max and denominator", "alpha", "carries",
                 "the exponential of -inf + inf"),
                ("dot-overflow", 0, "scores", "S", "sram-S", "overflows to inf before the scale is applied"),
                ("carry-overflow", 3, "output", "O", "sram-O", "alpha l O + sum p v overflows")):
            with self.subTest(case):
                steps = self.open(case)
                right = next(step["step"] for step in steps if step["phase"] == phase and step["tile"] == tile)

                while self.step() < right:
                    self.assertEqual(self.red(), ([], ""), f"red already at step {self.step()}")
                    self.press(Keys.ARROW_RIGHT)
                cells, sentence = self.red()

                self.assertEqual(self.step(), right)
                self.assertIn(place, [cell.find_element(By.XPATH, "ancestor::*[@id][1]").get_attribute("id")
                                      for cell in cells])
                self.assertIn(f"Row 0: {quantity} goes bad.", sentence)
                self.assertIn(why, sentence)
                self.screenshot(case)
                self.press(Keys.HOME)
                self.press("b")
                self.assertEqual(self.step(), right)

    def test_nothing_is_red_where_nothing_is_wrong(self):
        steps = self.open("n_q=5 n_kv=7 d=2", "--kernel", "fa1.Br4xBc2")

        for _ in steps:
            self.assertEqual(self.red(), ([], ""))
            self.press(Keys.ARROW_RIGHT)

    def test_what_moves_is_marked_where_it_leaves_and_where_it_arrives(self):
        steps = self.open("n_q=5 n_kv=7 d=2", "--kernel", "fa1.Br4xBc2")

        for step in steps:
            for name in ("Q", "K", "V", "O", "l", "m"):
                marked = {side: len(self.browser.find_elements(By.CSS_SELECTOR, f"#{side}-{name} .{way}"))
                          for side, way in (("hbm", "out"), ("hbm", "in"), ("sram", "in"), ("sram", "out"))
                          if (way == "out") == ((side == "hbm") != (step["phase"] == "store"))}
                # D = 2 = d, so that each float that moves is a cell.
                moved = step["read"].get(name, 0) + step["written"].get(name, 0)
                self.assertEqual(marked, {"hbm": moved, "sram": moved}, f"{name} at step {step['step']}")
            self.press(Keys.ARROW_RIGHT)

    def test_space_plays_and_pauses_and_buttons_and_slider_step(self):
        self.open("n_q=5 n_kv=7 d=2", "--kernel", "fa1.Br4xBc2")

        self.press(Keys.SPACE)
        until = time.monotonic() + WAIT
        while self.step() < 2 and time.monotonic() < until:
            time.sleep(0.05)
        self.press(Keys.SPACE)
        paused = self.step()
        self.browser.find_element(By.ID, "next").click()
        self.browser.execute_script(
            "slider.focus(); slider.value = 9; slider.dispatchEvent(new Event('input'))")

        self.assertGreaterEqual(paused, 2)
        self.assertEqual(self.text("#play"), "Play")
        self.assertEqual(self.step(), 9)
        self.press(Keys.ARROW_RIGHT)  # the slider has the focus: one step, not two
        self.assertEqual(self.step(), 10)

    def test_a_screen_reader_and_the_keyboard_find_their_way(self):
        self.open("inf-first-tile")

        sentence = self.browser.find_element(By.ID, "sentence")
        slider = self.browser.find_element(By.ID, "slider")
        self.press(Keys.TAB)
        self.press(Keys.TAB)
        focused = self.browser.switch_to.active_element

        self.assertEqual(sentence.get_attribute("aria-live"), "polite")
        self.assertIn(sentence.text, slider.get_attribute("aria-valuetext"))
        self.assertEqual(focused.tag_name, "button")
        self.assertNotEqual(focused.value_of_css_property("outline-style"), "none")
        for button in self.browser.find_elements(By.TAG_NAME, "button"):
            self.assertTrue(button.text)
        for section in self.browser.find_elements(By.TAG_NAME, "section"):
            named = section.get_attribute("aria-label") or section.get_attribute("aria-hidden")
            self.assertTrue(named, section.get_attribute("id"))

    def test_nothing_flashes_where_motion_is_to_be_reduced(self):
        self.open("n_q=5 n_kv=7 d=2", "--kernel", "fa1.Br4xBc2")
        self.press(Keys.ARROW_RIGHT)
        arriving = self.browser.find_element(By.CSS_SELECTOR, ".arriving")

        still = arriving.value_of_css_property("animation-name")
        self.look(1280, 800, still=False)
        moving = arriving.value_of_css_property("animation-name")

        self.assertEqual((still, moving), ("none", "arrive"))

    def test_it_is_drawn_on_wide_and_narrow_screens_light_and_dark(self):
        self.open("n_q=8 n_kv=8 d=3", "--kernel", "fa1.Br4xBc2")
        for _ in range(17):  # a step that writes, in the second tile
            self.press(Keys.ARROW_RIGHT)
        papers = []
        for name, width, height, dark in (("trace", 1280, 800, False), ("trace-dark", 1280, 800, True),
                                          ("trace-narrow", 400, 800, False)):
            with self.subTest(name):
                self.look(width, height, dark)

                wide, high, raw = self.screenshot(name)

                papers.append(self.browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
                self.assertEqual((wide, high), (width, height))
                self.assertGreater(len(set(raw)), 64)  # an empty page has few shades
                self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), width)
        self.assertNotEqual(papers[0], papers[1])

    def test_the_largest_page_is_drawn(self):
        self.open("n_q=64 n_kv=64 d=16", "--kernel", "fa1.Br8xBc4")

        self.press(Keys.END)

        self.assertEqual(self.step(), self.head["steps"] - 1)
        self.assertEqual(self.browser.get_log("browser"), [])
        self.screenshot("trace-64")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    OPTIONS, rest = parser.parse_known_args()
    if missing():
        print("skipped: missing " + ", ".join(missing()) + "; ./fa1lab test installs them where it may")
        sys.exit(SKIPPED)
    OPTIONS.folder.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
