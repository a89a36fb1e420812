"""What MkDocs needs besides docs/: files of the root that the pages link, and README as the front
page. On the site all of them lie in one directory, so links lose the part that leads from one
directory to the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent

OF_THE_ROOT = {
    "README.md": "index.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE",
    "deploy/opentelemetry.yaml": "deploy/opentelemetry.yaml",
}
"""Files and where they lie on the site."""


def on_files(files: Files, config: Any) -> Files:
    """Add the files of the root."""
    for path, place in OF_THE_ROOT.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links of README and of the pages lead to their places on the site."""
    return markdown.replace("](docs/", "](").replace("](../", "](")
