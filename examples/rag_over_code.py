"""Questions about code: one memory for each function and class, about its name.

python examples/rag_over_code.py [PACKAGE] [QUESTION]
"""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spector


def definitions(package: str) -> Iterator[dict[str, Any]]:
    """What can be remembered of a package; its code is read, not run."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin)
    for path in sorted(root.parent.rglob("*.py")) if root.name == "__init__.py" else [root]:
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            place = f"{path.relative_to(root.parent.parent)}:{node.lineno}"
            yield {
                "id": place,
                "text": ast.get_source_segment(source, node) or node.name,
                "about": node.name,  # a question that names it finds it, and so do its callers
                "context": place,
                "tags": [type(node).__name__.removesuffix("Def").lower()],
            }


def main(package: str = "json", question: str = "how does JSONDecoder scan a string?") -> None:
    with spector.SpectorMemory.ephemeral() as memory:
        ids = memory.remember_many(definitions(package))
        print(f"{len(ids)} definitions of {package}; {question}")
        for hit in memory.recall(question, k=5, trace=True):
            print(f"{hit.id:24} {hit.text.splitlines()[0][:48]:48} {hit.why()[:60]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
