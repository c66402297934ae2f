# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversations as tokens, and which of them the assistant has said.

Three ways to know the latter: the template marks it (`{% generation %}`); two texts stand around it
(--assistant-start, --assistant-end); else the template is asked, with the conversation up to there.
"""

import pathlib
import re

from ..errors import Error
from .rows import RowError

TAG = re.compile(r"\{%-?\s*generation\s*-?%\}")


def set_template(tokenizer, chosen):
    """Takes --chat-template: a file of Jinja, or of several that the tokenizer has, the name of one."""
    if chosen:
        named = tokenizer.chat_template if isinstance(tokenizer.chat_template, dict) else {}
        if chosen in named:
            tokenizer.chat_template = named[chosen]
        elif pathlib.Path(chosen).is_file():
            tokenizer.chat_template = pathlib.Path(chosen).read_text()
        elif "{" in chosen:
            tokenizer.chat_template = chosen
        else:
            has = f"; the tokenizer has {', '.join(named)}" if named else ""
            raise Error(f"--chat-template {chosen}: there is no such file{has}")
    elif isinstance(tokenizer.chat_template, dict):
        if "default" not in tokenizer.chat_template:
            raise Error(f"the tokenizer has several chat templates: --chat-template {'|'.join(tokenizer.chat_template)}")
        tokenizer.chat_template = tokenizer.chat_template["default"]


class Template:
    """`encode` makes tokens and marks of conversations."""

    def __init__(self, tokenizer, train_on="assistant", start=None, end=None):
        self.tokenizer, self.train_on, self.start, self.end = tokenizer, train_on, start, end
        if train_on == "all":
            self.how = "all"
        elif start:
            self.how = "markers"
        elif TAG.search(tokenizer.chat_template or ""):
            self.how = "tags"
        else:
            self.how = "prefixes"

    def _render(self, messages, extra, where, **more):
        try:
            return self.tokenizer.apply_chat_template(messages, tokenize=False, **extra, **more)
        except Exception as error:  # whatever a template raises
            raise RowError(f"{where}: the chat template refuses the row: {error}") from None

    def encode(self, chats, places):
        """For each conversation (ids, marks, text, offsets) or a RowError; marks are 1 where is trained."""
        found = [None] * len(chats)
        texts, spans, kept = [], [], []
        for index, (chat, where) in enumerate(zip(chats, places)):
            try:
                if not self.tokenizer.chat_template:
                    raise RowError(
                        f"{where}: the row is a conversation, and the tokenizer has no chat template: "
                        "--chat-template FILE gives one"
                    )
                if self.how == "tags":
                    text, marked = self._tags(chat, where)
                else:
                    text = self._render(chat.messages, chat.extra, where)
                    marked = getattr(self, "_" + self.how)(text, chat, where)
                marked = self._chosen(marked, chat, where)
            except RowError as error:
                found[index] = error
                continue
            texts.append(text)
            spans.append(marked)
            kept.append(index)
        if texts:
            encoded = self.tokenizer(texts, add_special_tokens=False)
            for index, text, marked, encoding in zip(kept, texts, spans, encoded.encodings):
                found[index] = encoding.ids, marks_of(encoding.offsets, marked)
        return found

    def _chosen(self, spans, chat, where):
        """Of the spans those that --train-on and the messages' own `weight` or `train` leave."""
        if self.how == "all":
            return spans
        said = [m for m in chat.messages if m["role"] == "assistant"]
        weights = [bool(m.get("weight", m.get("train", 1))) for m in said]
        if self.train_on == "last":
            return spans[-1:]
        if all(weights):
            return spans
        if len(spans) != len(said):
            raise RowError(
                f"{where}: the template marks {len(spans)} parts for {len(said)} messages of the assistant, so their "
                "'weight' cannot be told apart"
            )
        return [span for span, weight in zip(spans, weights) if weight]

    def _all(self, text, chat, where):
        return [(0, len(text))]

    def _tags(self, chat, where):
        """The template's own marks. What renders for `apply_chat_template(return_assistant_tokens_mask=True)`."""
        from transformers.utils.chat_template_utils import render_jinja_template

        try:
            texts, spans = render_jinja_template(
                [chat.messages], chat_template=self.tokenizer.chat_template, return_assistant_tokens_mask=True,
                **chat.extra, **self.tokenizer.special_tokens_map,
            )  # fmt: skip
        except Exception as error:  # whatever a template raises
            raise RowError(f"{where}: the chat template refuses the row: {error}") from None
        return texts[0], [tuple(span) for span in spans[0]]

    def _markers(self, text, chat, where):
        """What is behind each `start`, up to and with `end`."""
        spans, at = [], 0
        while (begin := text.find(self.start, at)) >= 0:
            begin += len(self.start)
            end = text.find(self.end, begin) if self.end else len(text)
            at = len(text) if end < 0 else end + len(self.end or "")
            spans.append((begin, at))
        return spans

    def _prefixes(self, text, chat, where):
        spans = []
        for index, message in enumerate(chat.messages):
            if message["role"] != "assistant":
                continue
            if self.train_on == "last" and any(m["role"] == "assistant" for m in chat.messages[index + 1 :]):
                continue
            before = self._render(chat.messages[:index], chat.extra, where, add_generation_prompt=True) if index else ""
            upto = text
            if index + 1 < len(chat.messages):
                upto = self._render(chat.messages[: index + 1], chat.extra, where)
            content = (message["content"] if isinstance(message.get("content"), str) else "").strip()
            end = None
            if text.startswith(before):
                if text.startswith(upto):
                    end = len(upto)
                elif content and (at := upto.rfind(content)) >= 0:
                    # Templates that leave something out of what is said earlier (thoughts): the text itself, and what ends it.
                    after = upto[at + len(content) :]
                    place = text.find(content, len(before))
                    if place >= 0 and text.startswith(after, place + len(content)):
                        end = place + len(content) + len(after)
            if end is None:
                raise RowError(
                    f"{where}: the template writes a conversation's beginning differently once it goes on, so where "
                    "the assistant's text is cannot be told: a template with {% generation %} (--chat-template FILE), "
                    "--assistant-start and --assistant-end, or --train-on last or all"
                )
            # A line's end behind the token that ends a turn is not the assistant's.
            said = text[len(before) : end]
            if not said.rstrip().endswith(content or "\0"):
                end = len(before) + len(said.rstrip())
            spans.append((len(before), end))
        return spans


def marks_of(offsets, spans):
    """1 for each token that lies within a span or reaches into one, as transformers marks them."""
    marks = [0] * len(offsets)
    current = 0
    for index, (begin, end) in enumerate(offsets):
        while current < len(spans) and begin >= spans[current][1]:
            current += 1
        if current == len(spans):
            break
        if end > spans[current][0] and end > begin:
            marks[index] = 1
    return marks
