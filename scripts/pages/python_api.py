# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python API: signatures and docstrings of what the two packages export, read from the sources without importing them."""

import ast

INTRO = """# Python API

What `import trainc` and `import trainrt` offer: [from Python](../python.md) shows how it is used.
"""


def defined(path):
    return {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def exported(package):
    """The tree that defines each name of __all__, and the names that come from elsewhere."""
    init = package / "__init__.py"
    names, own = [], defined(init)
    for node in ast.parse(init.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            names = ast.literal_eval(node.value)
        elif isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            there = defined(package / f"{node.module}.py")
            own.update({alias.name: there[alias.name] for alias in node.names if alias.name in there})
    return {name: own[name] for name in names if name in own}, [name for name in names if name not in own]


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
            said = prose(member)
            lines.append(f"```python\n{shown}\n```\n" + (f"\n{said}\n" if said else ""))
    return "\n".join(lines)


def pages(root, build):
    text = [INTRO]
    for module in ("trainc", "trainrt"):
        package = root / "python" / module / module
        text.append(f"## {module}\n\n{prose(ast.parse((package / '__init__.py').read_text()))}\n")
        own, others = exported(package)
        if others:
            text.append(f"Also here, of another module: {', '.join(f'`{name}`' for name in others)}.\n")
        text += [part(module, name, node) for name, node in own.items()]
    return {"python-api.md": "\n".join(text)}
