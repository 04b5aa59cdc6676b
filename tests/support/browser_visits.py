"""Pages in Debian's chromium, and what they ask for, print and show."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from playwright.sync_api import Browser, Page

from support.pod_subset import REPOSITORY
from support.processes import DEADLINE_SECONDS

IMAGES = REPOSITORY / "docs" / "images"
# Before any program of the page.
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


class Visit:
    """A tab of its own, as of a person who has no cookies yet."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        context.set_default_timeout(1000 * DEADLINE_SECONDS)
        context.add_init_script(_WATCH)
        self.page: Page = context.new_page()
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.requests: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))

    def outside(self) -> list[str]:
        """Return the addresses that were asked for, without those that are their own content."""
        return [url for url in self.requests if not url.startswith("data:")]

    def assert_nothing_said(self) -> None:
        """Check that the page printed nothing, and that its policy had nothing to refuse."""
        assert self.page.evaluate("window.violations") == []
        assert self.said == []

    def close(self) -> None:
        """Close the tab."""
        self.page.context.close()


def assert_drawn_as_committed(folder: Path, *, update: bool) -> None:
    """Check pictures against those of docs/images; with `update`, write them there first."""
    for file in sorted(folder.iterdir()):
        if update:
            IMAGES.mkdir(exist_ok=True)
            shutil.copy(file, IMAGES)
        drawn, committed = (cv2.imread(str(one)) for one in (file, IMAGES / file.name))
        assert drawn is not None and committed is not None
        assert drawn.shape == committed.shape
        # Another release of the browser or of a font moves a few pixels.
        assert np.mean(cv2.absdiff(drawn, committed)) < 8
