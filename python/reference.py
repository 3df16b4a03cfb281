"""Writes docs/python/reference.md from the docstrings and annotations of python/paragon.

    python3 python/reference.py           # writes the page: make docs does so
    python3 python/reference.py --check   # says whether the page is what it would write

The source is parsed and never imported, so neither torch nor numpy is needed. A module is public if
no part of its name begins with an underscore; its public names are those of __all__, wherever in
the package they are defined.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "python" / "paragon"
PAGE = REPOSITORY / "docs" / "python" / "reference.md"
HEAD = """\
# Python reference

This page is made from the docstrings and annotations of `python/paragon` by `make docs`.

"""


@dataclass
class Module:
    """A source file of the package."""

    name: str
    tree: ast.Module
    # A package is an __init__.py: relative imports begin there, not at its parent.
    package: bool

    @property
    def public(self) -> bool:
        return not any(part.startswith("_") for part in self.name.split("."))

    def exported(self) -> List[str]:
        """The public names, in the order of __all__; without __all__ those that it defines."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and _targets(node) == ["__all__"]:
                return [str(name) for name in ast.literal_eval(node.value)]
        defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return [n.name for n in self.tree.body if isinstance(n, defined) and n.name[0] != "_"]

    def definition(self, name: str) -> Optional[ast.stmt]:
        """The statement that defines a name in this file, or imports it."""
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return node
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and name in _targets(node):
                return node
            if isinstance(node, ast.ImportFrom):
                if name in [a.asname or a.name for a in node.names]:
                    return node
        return None

    def source(self, node: ast.ImportFrom) -> str:
        """The full name of the module from which a statement imports."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        parts = parts[: len(parts) - node.level + self.package]
        return ".".join(parts + ([node.module] if node.module else []))


def _targets(node: ast.stmt) -> List[str]:
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    assert isinstance(node, ast.Assign)
    return [t.id for t in node.targets if isinstance(t, ast.Name)]


def modules(folder: Path = PACKAGE) -> Dict[str, Module]:
    """Parses all files of the package, by their modules' names."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = [folder.name] + list(path.relative_to(folder).with_suffix("").parts)
        package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if package else parts)
        found[name] = Module(name, ast.parse(path.read_text(), str(path)), package)
    return found


class Reference:
    """The page as it is written, module by module."""

    def __init__(self, all_modules: Dict[str, Module]) -> None:
        self.modules = all_modules
        # Where a definition was shown: by the module that has it and its name.
        self.shown: Dict[Tuple[str, str], str] = {}
        self.lines: List[str] = []

    def page(self) -> str:
        shown = [m for m in self.modules.values() if m.public]
        self.lines.append("| module | |\n| --- | --- |")
        for m in shown:
            first = (ast.get_docstring(m.tree) or "").split("\n")[0]
            self.lines.append(f"| [`{m.name}`](#{m.name.replace('.', '')}) | {plain(first)} |")
        self.lines.append("")
        for m in shown:
            self.module(m)
        return HEAD + "\n".join(self.lines).rstrip() + "\n"

    def module(self, m: Module) -> None:
        self.lines += [f"## {m.name}", ""]
        self.text(m.tree)
        for name in m.exported():
            self.name(m, name)

    def name(self, m: Module, name: str) -> None:
        """Shows a public name of a module, or says where it is shown."""
        found = self.resolve(m, name)
        if found is None or name.startswith("__"):
            return
        owner, own, node = found
        before = self.shown.get((owner, own))
        if before is None and owner != m.name and self.modules[owner].public:
            before = f"{owner}.{own}"
        if before is not None:
            self.lines += [f"### {name}", "", f"`{m.name}.{name}` is `{before}`.", ""]
            return
        self.shown[owner, own] = f"{m.name}.{name}"
        if isinstance(node, ast.ClassDef):
            self.klass(name, owner, node)
        elif isinstance(node, ast.FunctionDef):
            self.lines += [f"### {name}", ""] + code(signature(name, node, method=False))
            self.text(node)
        else:
            self.constant(name, owner, node)

    def resolve(self, m: Module, name: str) -> Optional[Tuple[str, str, ast.stmt]]:
        """The module that defines a name, the name there, and the definition.

        None for a name that is a module itself."""
        if f"{m.name}.{name}" in self.modules:
            return None
        node = m.definition(name)
        if node is None:
            raise SystemExit(f"reference: {m.name} exports {name}, and does not define it")
        if not isinstance(node, ast.ImportFrom):
            return m.name, name, node
        (own,) = [a.name for a in node.names if (a.asname or a.name) == name]
        source = m.source(node)
        if source not in self.modules:
            raise SystemExit(f"reference: {m.name} exports {name} of {source}, which is not ours")
        return self.resolve(self.modules[source], own)

    def methods(self, owner: str, node: ast.ClassDef) -> List[ast.FunctionDef]:
        """The public methods of a class, without setters, and without those that have no docstring
        because a base class in the package has one for them."""
        own = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name[0] != "_"]
        own = [n for n in own if not any(_is_setter(d) for d in n.decorator_list)]
        described = set()
        for base in node.bases:
            m = self.modules[owner]
            found = m.definition(base.id) if isinstance(base, ast.Name) else None
            if isinstance(found, ast.ImportFrom) and m.source(found) in self.modules:
                m = self.modules[m.source(found)]
                found = m.definition(base.id)
            if isinstance(found, ast.ClassDef):
                described |= {n.name for n in self.methods(m.name, found)}
        return [n for n in own if ast.get_docstring(n) or n.name not in described]

    def klass(self, name: str, owner: str, node: ast.ClassDef) -> None:
        bases = ", ".join(ast.unparse(b) for b in node.bases)
        self.lines += [f"### {name}", ""]
        made = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        if made:
            self.lines += code("class " + signature(name, made[0], method=True, result=False))
        elif any("dataclass" in ast.unparse(d) for d in node.decorator_list):
            fields = [ast.unparse(n) for n in node.body if isinstance(n, ast.AnnAssign)]
            self.lines += code("class " + call(name, fields))
        else:
            self.lines += code(f"class {name}({bases})" if bases else f"class {name}")
        self.text(node)
        for method in self.methods(owner, node):
            self.method(name, method)

    def method(self, of: str, node: ast.FunctionDef) -> None:
        kinds = [ast.unparse(d) for d in node.decorator_list]
        self.lines += [f"#### {of}.{node.name}", ""]
        if "property" in kinds:
            result = f": {ast.unparse(node.returns)}" if node.returns else ""
            self.lines += code(f"{node.name}{result}  # property")
        else:
            first = "".join(f"@{k}\n" for k in kinds if k in ("staticmethod", "classmethod"))
            self.lines += code(
                first + signature(node.name, node, method="staticmethod" not in kinds)
            )
        self.text(node)

    def constant(self, name: str, owner: str, node: ast.stmt) -> None:
        self.lines += [f"### {name}", ""] + code(ast.unparse(node))
        body = self.modules[owner].tree.body
        after = body[body.index(node) + 1 : body.index(node) + 2]
        if after and isinstance(after[0], ast.Expr) and isinstance(after[0].value, ast.Constant):
            self.lines += list(markdown(str(after[0].value.value))) + [""]

    def text(self, node: ast.AST) -> None:
        """Shows a docstring."""
        docstring = ast.get_docstring(node)  # type: ignore[arg-type]
        if docstring:
            self.lines += list(markdown(docstring)) + [""]


def _is_setter(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter")


def signature(name: str, node: ast.FunctionDef, method: bool, result: bool = True) -> str:
    """A function's header with its annotations, without self."""
    a = node.args
    plain_args = a.posonlyargs + a.args
    defaults = [None] * (len(plain_args) - len(a.defaults)) + list(a.defaults)
    parts = [argument(arg, d) for arg, d in zip(plain_args, defaults)]
    if a.posonlyargs:
        parts.insert(len(a.posonlyargs), "/")
    if method:
        parts = parts[1:]
    if a.vararg:
        parts.append("*" + argument(a.vararg, None))
    elif a.kwonlyargs:
        parts.append("*")
    parts += [argument(arg, d) for arg, d in zip(a.kwonlyargs, a.kw_defaults)]
    if a.kwarg:
        parts.append("**" + argument(a.kwarg, None))
    end = f" -> {ast.unparse(node.returns)}" if result and node.returns else ""
    return call(name, parts, end)


def argument(arg: ast.arg, default: Optional[ast.expr]) -> str:
    text, equals = arg.arg, "="
    if arg.annotation is not None:
        text, equals = f"{arg.arg}: {ast.unparse(arg.annotation)}", " = "
    return text if default is None else text + equals + ast.unparse(default)


def call(name: str, parts: List[str], end: str = "") -> str:
    """name(parts)end on one line, or with each part on its own."""
    line = f"{name}({', '.join(parts)}){end}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{name}("] + [f"    {p}," for p in parts] + [f"){end}"])


def code(text: str) -> List[str]:
    return ["```python"] + text.split("\n") + ["```", ""]


def plain(text: str) -> str:
    """A docstring's text in Markdown: roles and double quotes are code."""
    text = re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def markdown(docstring: str) -> Iterator[str]:
    """A docstring's lines in Markdown: indented blocks after "::" are code, tables are text."""
    for block in re.split(r"\n\s*\n(?=\S)", textwrap.dedent(docstring).strip()):
        head, colons, rest = block.partition("::\n")
        if colons:
            yield from plain(head + ":").split("\n") if head else []
            yield from ["", "```python"] + textwrap.dedent(rest.strip("\n")).split("\n") + ["```"]
        elif block.startswith("===="):
            yield from ["```text"] + block.split("\n") + ["```"]
        elif re.match(r"(Args|Attributes|Returns|Raises):\n", block):
            yield from items(block)
        else:
            yield from plain(block).split("\n")
        yield ""


def items(block: str) -> Iterator[str]:
    """A block of arguments as a list: "name: text", and further lines of a text are indented."""
    head, _, rest = plain(block).partition("\n")
    yield from [head, ""]
    for line in textwrap.dedent(rest).split("\n"):
        name, colon, text = line.partition(": ")
        yield f"- `{name}`: {text}" if colon and line[0] != " " else f"  {line.strip()}"


def main(arguments: List[str]) -> int:
    page = re.sub(r"\n{3,}", "\n\n", Reference(modules()).page())
    if arguments == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page:
            print(f"{PAGE.relative_to(REPOSITORY)} is stale: make docs writes it", file=sys.stderr)
            return 1
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
