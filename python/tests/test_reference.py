"""docs/python/reference.md, which python/reference.py writes from the source."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "reference.py"


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("reference", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_fresh():
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--check"], stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_public_names_are_shown_once_wherever_they_are_defined(program, tmp_path):
    folder = tmp_path / "p"
    (folder / "sub").mkdir(parents=True)
    (folder / "__init__.py").write_text(
        '"""A package.\n\nUse it::\n\n    import p\n"""\n'
        "from ._private import Thing, make\nfrom . import sub\nfrom .sub import other\n"
        '__all__ = ["Thing", "make", "other", "sub"]\n'
    )
    (folder / "table.py").write_text(
        '"""A table.\n\n====  ==\na     b\n====  ==\n"""\n__all__ = ["T"]\nT = 1\n'
    )
    (folder / "_private.py").write_text(
        "class Thing:\n"
        '    """A thing, see :meth:`Thing.go`."""\n'
        "    def __init__(self, n: int = 1) -> None: pass\n"
        "    @property\n"
        "    def size(self) -> int:\n"
        '        """Its size in ``bytes``."""\n'
        "    def go(self, *, fast: bool = False) -> None:\n"
        '        """Goes."""\n'
        "    def _hidden(self): pass\n"
        "def make(a, /, *b, c=2, **d) -> Thing:\n"
        '    """Makes a thing.\n\n    Args:\n'
        '        a: one\n            more.\n        b: two.\n    """\n'
        "def unseen(): pass\n"
    )
    (folder / "sub" / "__init__.py").write_text(
        '"""More."""\nfrom .._private import make\ndef other(): "Another."\nLIMIT = 3\n"""The most."""\n'
        '__all__ = ["make", "other", "LIMIT"]\n'
    )
    page = program.Reference(program.modules(folder)).page()
    for text in [
        "## p\n\nA package.\n\nUse it:\n\n```python\nimport p\n```\n",
        "### Thing\n\n```python\nclass Thing(n: int = 1)\n```\n\nA thing, see `Thing.go`.\n",
        "#### Thing.size\n\n```python\nsize: int  # property\n```\n\nIts size in `bytes`.\n",
        "#### Thing.go\n\n```python\ngo(*, fast: bool = False) -> None\n```\n\nGoes.\n",
        "### make\n\n```python\nmake(a, /, *b, c=2, **d) -> Thing\n```\n\nMakes a thing.\n",
        "Args:\n\n- `a`: one\n  more.\n- `b`: two.\n",
        "A table.\n\n```text\n====  ==\na     b\n====  ==\n```\n",
        "`p.other` is `p.sub.other`.",
        "`p.sub.make` is `p.make`.",
        "### LIMIT\n\n```python\nLIMIT = 3\n```\n\nThe most.\n",
    ]:
        assert text in page
    assert "hidden" not in page and "unseen" not in page


def test_a_name_that_is_exported_and_not_there_is_an_error(program, tmp_path):
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "__init__.py").write_text('__all__ = ["gone"]\n')
    with pytest.raises(SystemExit, match="p exports gone, and does not define it"):
        program.Reference(program.modules(folder)).page()


def test_every_public_name_has_a_docstring(program):
    reference = program.Reference(program.modules())
    missing = []
    for m in reference.modules.values():
        if not m.public:
            continue
        if not ast.get_docstring(m.tree):
            missing.append(m.name)
        for name in m.exported():
            found = reference.resolve(m, name)
            if found is None or name.startswith("__"):
                continue
            owner, _, node = found
            nodes = [node] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
            if isinstance(node, ast.ClassDef):
                nodes += reference.methods(owner, node)
            missing += [f"{m.name}.{name}: {n.name}" for n in nodes if not ast.get_docstring(n)]
    assert not missing
