"""A description for search engines and previews: the first sentences of a page, unless its head gives one."""

import re
from typing import Any


def description(markdown: str) -> str:
    """The first paragraph of prose, without markup: whole sentences of up to 160 characters in all."""
    for part in re.split(r"\n\s*\n", markdown):
        if re.match(r"[A-Z*`]", part) and not part.startswith("```"):
            plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)|[*`]", r"\1", " ".join(part.split()))
            kept = ""
            for sentence in re.split(r"(?<=[.?!]) ", plain):
                if "$" in sentence or (kept and len(kept) + len(sentence) > 160):
                    break
                kept = f"{kept} {sentence}".strip()
            return kept
    return ""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    page.meta.setdefault("description", description(markdown))
    return markdown
