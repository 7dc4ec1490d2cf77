"""Every link of the built pages leads somewhere, and no page asks the network for a part of itself.

python docs/links.py build/docs
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

PARTS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements that a browser fetches by itself."""
_HINTS = {"canonical", "author", "search", "index", "next", "prev", "help"}
"""Links of a page's head that are not fetched."""


class Page(HTMLParser):
    """The links, fetched parts and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.parts, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note what an element leads to."""
        known = dict(attrs)
        self.anchors |= {known[name] for name in ("id", "name") if known.get(name)}
        if tag == "a" and known.get("href"):
            self.links.append(known["href"])
        hint = tag == "link" and set((known.get("rel") or "").split()) & _HINTS
        if tag in PARTS and known.get(PARTS[tag]) and not hint:
            self.parts.append(known[PARTS[tag]])


def problems(folder):
    """What is wrong, in words, over all pages of a folder."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).rglob("*.html"))}
    for path, page in pages.items():
        for part in page.parts:
            if part.startswith(("http:", "https:", "//")):
                yield f"{path.name} fetches {part}"
        for link in [*page.links, *page.parts]:
            if link.startswith(("http:", "https:", "mailto:", "data:", "javascript:", "//")):
                continue
            target, anchor = urldefrag(unquote(link))
            found = path if not target else (path.parent / target.split("?")[0]).resolve()
            if not found.exists():
                yield f"{path.name} leads to {link}, which is not there"
            elif anchor and found in pages and anchor not in pages[found].anchors:
                yield f"{path.name} leads to {link}, and the page has no such place"


if __name__ == "__main__":
    found = sorted(set(problems(Path(sys.argv[1]).resolve())))
    print("\n".join(found) or "every link leads somewhere")
    sys.exit(bool(found))
