# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python API: signatures and docstrings of what the two packages export, read from the sources without importing them."""

import ast

INTRO = """# Python API

What `import trainc` and `import trainrt` offer: [from Python](../python.md) shows how it is used.
"""


def exported(package):
    """The names of __all__, and the tree that defines each."""
    names, trees = [], {}
    for path in sorted(package.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                trees.setdefault(node.name, []).append((path, node))
            if path == package / "__init__.py" and isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
                names = ast.literal_eval(node.value)
    # What the package's own file defines stands before modules of the same name; of a class and others, the one with most to say.
    weight = lambda found: (found[0] == package / "__init__.py", len(ast.get_docstring(found[1]) or ""))  # noqa: E731
    return {name: max(trees[name], key=weight)[1] for name in names if name in trees}


def signature(node, name):
    arguments = ast.unparse(node.args)
    return f"{name}({arguments.removeprefix('self, ').removeprefix('cls, ') if arguments not in ('self', 'cls') else ''})"


def prose(node):
    # A module's docstring is at the margin: what is indented there is code.
    text = ast.get_docstring(node, clean=not isinstance(node, ast.Module)) or ""
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(p if p.startswith("    ") else p.replace("<", "&lt;") for p in paragraphs)


def part(module, name, node):
    if isinstance(node, ast.FunctionDef):
        return f"### {module}.{name}\n\n```python\n{signature(node, f'{module}.{name}')}\n```\n\n{prose(node)}\n"
    lines = [f"### {module}.{name}\n", f"{prose(node)}\n"]
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and (member.name == "__init__" or not member.name.startswith("_")):
            is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in member.decorator_list)
            shown = f"{name}.{member.name}" if is_property else signature(member, name if member.name == "__init__" else f"{name}.{member.name}")
            lines.append(f"```python\n{shown}\n```\n\n{prose(member)}\n")
    return "\n".join(lines)


def pages(root, build):
    text = [INTRO]
    for module in ("trainc", "trainrt"):
        package = root / "python" / module / module
        text.append(f"## {module}\n\n{prose(ast.parse((package / '__init__.py').read_text()))}\n")
        text += [part(module, name, node) for name, node in exported(package).items()]
    return {"python-api.md": "\n".join(text)}
