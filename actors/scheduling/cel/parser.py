"""Parses an expression by cel-go's grammar, with the options that Kubernetes sets.

The parser is a walk without recursion of Python, so that no text can exhaust the stack. cel-go
limits the depth of each rule of its grammar to 250. Here that limits the depth of the whole tree;
MOST_NODES limits its size, which macros multiply.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .errors import CompileError, Problem
from .lexer import Token, tokens
from .macros import expand
from .tree import Call, Ident, ListNode, Literal, MapNode, Message, Select, TreeNode, Walk, walk
from .values import MAX_INT64

NodeWalk = Walk[Any]  # a walk that returns a node

LONGEST = 100_000
DEEPEST = 250
MOST_NODES = 10_000

RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
# The operators with two operands, by rule of the grammar; the last binds the tightest.
_LEVELS = (
    frozenset(("||",)),
    frozenset(("&&",)),
    frozenset(("<", "<=", ">=", ">", "==", "!=", "in")),
    frozenset(("+", "-")),
    frozenset(("*", "/", "%")),
)
_LEVEL = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}


def parse(source: str) -> TreeNode:
    """Returns the tree of the expression. Raises CompileError."""
    if len(source) > LONGEST:
        size = f"size: {len(source)}, limit {LONGEST}"
        raise CompileError([Problem(0, f"expression code point size exceeds limit: {size}")])
    parser = _Parser(tokens(source))
    root: TreeNode = walk(parser.whole())
    return root


class _Parser:
    def __init__(self, source: list[Token]) -> None:
        self._tokens = source
        self._at = 0
        self._nested = 0

    # ------------------------------------------------------------------------------------ tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def _take_if(self, kind: str) -> bool:
        if self._next.kind != kind:
            return False
        self._at += 1
        return True

    def _take_expected(self, kind: str) -> Token:
        if self._next.kind != kind:
            raise self._mismatch(repr(kind) if len(kind) < 3 else "IDENTIFIER")
        return self._take()

    def _mismatch(self, expected: str = "") -> CompileError:
        token = self._next
        text = token.value if isinstance(token.value, str) else str(token.value)
        more = f" expecting {expected}" if expected else ""
        message = f"Syntax error: mismatched input '{text}'{more}"
        return CompileError([Problem(token.at, message)])

    def _size_checked(self, node: TreeNode) -> TreeNode:
        """Returns the node. Raises CompileError if the tree has grown too large."""
        if node.depth > DEEPEST:
            raise CompileError(
                [Problem(node.at, f"expression recursion limit exceeded: {DEEPEST}")]
            )
        if node.size > MOST_NODES:
            raise CompileError([Problem(node.at, f"expression exceeds {MOST_NODES} nodes")])
        return node

    # ------------------------------------------------------------------------------------- rules

    def whole(self) -> NodeWalk:
        node = yield self._expression()
        if self._next.kind != "end":
            raise self._mismatch("<EOF>")
        return node

    def _expression(self) -> NodeWalk:
        self._nested += 1
        if self._nested > DEEPEST:
            message = f"expression recursion limit exceeded: {DEEPEST}"
            raise CompileError([Problem(self._next.at, message)])
        choices: list[tuple[int, TreeNode, TreeNode]] = []
        node = yield self._binary()
        while self._next.kind == "?":
            at = self._take().at
            truthy = yield self._binary()
            self._take_expected(":")
            choices.append((at, node, truthy))
            node = yield self._binary()
        for at, condition, truthy in reversed(choices):
            node = self._size_checked(Call(at, "_?_:_", [condition, truthy, node]))
        self._nested -= 1
        return node

    def _binary(self) -> NodeWalk:
        """Parses all operators with two operands, by precedence."""
        operands = [(yield self._unary())]
        operators: list[Token] = []
        while True:
            level = _LEVEL.get(self._next.kind, -1)
            # The operands of a chain of && or || are joined to one balanced tree.
            while operators and _LEVEL[operators[-1].kind] >= level + (0 <= level < 2):
                self._reduce(operands, operators)
            if level < 0:
                return operands[0]
            operators.append(self._take())
            operands.append((yield self._unary()))

    def _reduce(self, operands: list[TreeNode], operators: list[Token]) -> None:
        """Joins the operands of the last operator, or of the last chain of && or ||, into a
        node.
        """
        kind, joined = operators[-1].kind, [operators.pop()]
        while kind in ("&&", "||") and operators and operators[-1].kind == kind:
            joined.append(operators.pop())
        joined.reverse()
        terms = operands[-len(joined) - 1 :]
        del operands[-len(terms) :]
        name = "@in" if kind == "in" else f"_{kind}_"
        operands.append(self._balanced_tree(name, terms, joined, 0, len(joined) - 1))

    def _balanced_tree(
        self, name: str, terms: list[TreeNode], ops: list[Token], low: int, high: int
    ) -> TreeNode:
        mid = (low + high + 1) // 2
        left = terms[mid] if mid == low else self._balanced_tree(name, terms, ops, low, mid - 1)
        right = (
            terms[mid + 1] if mid == high else self._balanced_tree(name, terms, ops, mid + 1, high)
        )
        return self._size_checked(Call(ops[mid].at, name, [left, right]))

    def _unary(self) -> NodeWalk:
        operator, at = self._next.kind, self._next.at
        if operator not in ("!", "-"):
            return (yield self._member())
        count = 0
        while self._take_if(operator):
            count += 1
        if self._next.number and (operator == "-" or self._next.kind in ("!", "-")) and count == 1:
            self._at -= 1
            return (yield self._member())
        node = yield self._member()
        if count % 2:
            node = self._size_checked(Call(at, f"{operator}_", [node]))
        return node

    def _member(self) -> NodeWalk:
        node = yield self._primary()
        while self._next.kind in (".", "["):
            dot = self._take()
            optional = self._take_if("?")
            if dot.kind == "[":
                index = yield self._expression()
                self._take_expected("]")
                name = "_[?_]" if optional else "_[_]"
                node = self._size_checked(Call(dot.at, name, [node, index]))
                continue
            if self._next.kind == "escaped":
                raise CompileError([Problem(self._next.at, "unsupported syntax: '`'")])
            field = self._take_expected("ident")
            if optional:
                named = self._size_checked(Literal(field.at, field.value))
                node = self._size_checked(Call(dot.at, "_?._", [node, named]))
            elif self._next.kind == "(":
                at = self._take().at
                args = yield self._arguments()
                node = self._call_of_method(at, field.value, args, node)
            else:
                node = self._size_checked(Select(dot.at, node, field.value))
        return node

    def _call_of_method(
        self, at: int, function: str, args: list[TreeNode], target: TreeNode | None
    ) -> TreeNode:
        node = expand(at, function, args, target) or Call(at, function, args, target)
        return self._size_checked(node)

    def _arguments(self) -> Walk[list[TreeNode]]:
        """Parses the arguments of a call after its parenthesis."""
        args: list[TreeNode] = []
        if not self._take_if(")"):
            args.append((yield self._expression()))
            while self._take_if(","):
                args.append((yield self._expression()))
            self._take_expected(")")
        return args

    def _primary(self) -> NodeWalk:
        token = self._next
        match token.kind:
            case "literal":
                return self._literal()
            case "-":
                return self._negative_literal()
            case "(":
                self._take()
                node = yield self._expression()
                self._take_expected(")")
                return node
            case "[":
                return (yield self._list())
            case "{":
                return (yield self._map())
            case "." | "ident":
                return (yield self._name_expression())
            case "escaped":
                raise CompileError([Problem(token.at, "unsupported syntax: '`'")])
            case _:
                raise self._mismatch()

    def _literal(self) -> TreeNode:
        token = self._take()
        if token.number == "int" and token.value > MAX_INT64:
            raise CompileError([Problem(token.at, "invalid int literal")])
        return self._size_checked(Literal(token.at, token.value))

    def _negative_literal(self) -> TreeNode:
        minus, token = self._take(), self._next
        if not token.number:
            raise self._mismatch()
        self._take()
        return self._size_checked(Literal(minus.at, -token.value))

    def _separated_items(self, end: str) -> Iterator[None]:
        """Yields before each item of a list. Reads the commas and the closing token; a comma may
        stand alone.
        """
        if self._next.kind == "," and self._tokens[self._at + 1].kind == end:
            self._take()
        while not self._take_if(end):
            yield
            if self._next.kind != end:
                self._take_expected(",")

    def _list(self) -> NodeWalk:
        at = self._take().at
        elements: list[TreeNode] = []
        optional: set[int] = set()
        for _ in self._separated_items("]"):
            if self._take_if("?"):
                optional.add(len(elements))
            elements.append((yield self._expression()))
        return self._size_checked(ListNode(at, elements, frozenset(optional)))

    def _map(self) -> NodeWalk:
        at = self._take().at
        entries: list[tuple[TreeNode, TreeNode, bool]] = []
        for _ in self._separated_items("}"):
            optional = self._take_if("?")
            key = yield self._expression()
            self._take_expected(":")
            entries.append((key, (yield self._expression()), optional))
        return self._size_checked(MapNode(at, entries))

    def _name_expression(self) -> NodeWalk:
        """Parses a name: a variable, a call, or a message such as `a.b.Name{field: value}`."""
        at = self._next.at
        dot = "." if self._take_if(".") else ""
        token = self._take_expected("ident")
        if self._next.kind == "(":
            opened = self._take().at
            args = yield self._arguments()
            return self._call_of_method(opened, dot + token.value, args, None)
        message = self._message_name()
        if message:
            self._at += 1
            return (yield self._message(at, dot + token.value + message))
        if token.value in RESERVED:
            raise CompileError([Problem(at, f"reserved identifier: {token.value}")])
        return self._size_checked(Ident(at, dot + token.value))

    def _message_name(self) -> str:
        """Returns the rest of a message's name if `.b.Name{` follows, and moves to the brace."""
        at, name = self._at, " "
        while self._tokens[at].kind == "." and self._tokens[at + 1].kind == "ident":
            name += f".{self._tokens[at + 1].value}"
            at += 2
        if self._tokens[at].kind != "{":
            return ""
        self._at = at
        return name

    def _message(self, at: int, name: str) -> NodeWalk:
        fields: list[tuple[str, TreeNode, bool]] = []
        for _ in self._separated_items("}"):
            optional = self._take_if("?")
            field = self._take_expected("ident").value
            self._take_expected(":")
            fields.append((field, (yield self._expression()), optional))
        return self._size_checked(Message(at, name.replace(" ", ""), fields))
