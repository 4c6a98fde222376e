"""Text from a server that speaks OpenAI's protocol for chat completions."""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spector import arguments
from spector.errors import ConfigurationError, SpectorError
from spector.store.values import check_seconds, show

__all__ = ["GenerationError", "OpenAIProvider", "Usage"]

_KEY: Final = "OPENAI_API_KEY"
_LARGEST_ANSWER: Final = 4_000_000  # bytes
_LONGEST_WAIT: Final = 30.0  # seconds between two requests
_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_NO_SCHEMA: Final = frozenset({400, 404, 415, 422, 501})


class GenerationError(SpectorError):
    """A server gave no text.

    Attributes
    ----------
    status : int or None
        The HTTP status; None without an answer.
    final : bool
        Whether asking again is pointless for now.
    """

    def __init__(
        self, message: str, status: int | None = None, final: bool = False, wait: float = 0.0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.final = final
        self.wait = wait  # seconds that the server asks for


@dataclass(slots=True)
class Usage:
    """What a provider was asked for so far.

    Attributes
    ----------
    calls : int
        Requests, with those that failed.
    failures : int
        Requests that gave no text.
    prompt_tokens, completion_tokens : int
        As the server says.
    """

    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class OpenAIProvider:
    """A text generation provider: any server with ``/v1/chat/completions``.

    Any thread may call it. The text to complete and what it returns are never logged.

    Parameters
    ----------
    base_url : str
        Such as ``https://api.openai.com/v1`` or ``http://127.0.0.1:8080/v1``.
    model : str
        The model's name on the server.
    api_key : str, optional
        By default that of the environment variable `key_variable`; none if there is none.
    key_variable : str
    timeout : float
        Seconds for one request.
    retries : int
        How often a request is repeated that may succeed later, in [0, 10].
    backoff : float
        Seconds before the first repetition; each further one waits twice as long. The server may
        ask for more (Retry-After), up to 30 s.

    Examples
    --------
    >>> provider = OpenAIProvider("http://127.0.0.1:8080/v1", "local-model")
    >>> provider
    OpenAIProvider('http://127.0.0.1:8080/v1', 'local-model')
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        key_variable: str = _KEY,
        timeout: float = 60.0,
        retries: int = 2,
        backoff: float = 0.5,
    ) -> None:
        for name, value in (("base_url", base_url), ("model", model)):
            if not isinstance(value, str) or not value:
                raise ConfigurationError(f"{name} must be a non-empty str, got {show(value)}")
        parts = urllib.parse.urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigurationError(
                f"base_url must be an address such as http://127.0.0.1:8080/v1, got"
                f" {show(base_url)}"
            )
        self.base_url = base_url.rstrip("/")
        self.model = model
        self.usage = Usage()
        self._key = os.environ.get(key_variable) if api_key is None else api_key
        self._timeout = check_seconds("timeout", timeout)
        self._retries = arguments.whole("retries", retries, 0, 10)
        self._backoff = check_seconds("backoff", backoff)
        self._schemas = True  # until the server refuses one
        self._lock = threading.Lock()

    def __call__(self, prompt: str) -> str:
        """The text that the model answers with."""
        return self.generate(prompt)

    def generate(
        self,
        prompt: str,
        *,
        temperature: float = 0.3,
        max_tokens: int = 1024,
        schema: Mapping[str, Any] | None = None,
    ) -> str:
        """The text that the model answers with.

        Parameters
        ----------
        prompt : str
        temperature : float
        max_tokens : int
        schema : mapping, optional
            A JSON schema of the answer, used if the server can.

        Raises
        ------
        GenerationError
            There was no answer, also after the repetitions.
        """
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        attempt = 0
        while True:
            constrained = schema is not None and self._schemas
            if constrained:
                body["response_format"] = {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": schema},
                }
            else:
                body.pop("response_format", None)
            try:
                return self._ask(body)
            except GenerationError as error:
                if constrained and error.status in _NO_SCHEMA:
                    self._schemas = False
                    continue
                if error.final or attempt == self._retries:
                    error.final = True
                    raise
                wait = max(self._backoff * 2**attempt, error.wait)
                time.sleep(min(_LONGEST_WAIT, wait * (1 + random.random() / 10)))
                attempt += 1

    def _ask(self, body: Mapping[str, Any]) -> str:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(
            f"{self.base_url}/chat/completions", json.dumps(body).encode(), headers
        )
        with self._lock:
            self.usage.calls += 1
        try:
            with _opener.open(request, timeout=self._timeout) as response:
                data = response.read(_LARGEST_ANSWER + 1)
            return self._read(data)
        except urllib.error.HTTPError as error:
            raise self._failed(_refusal(error)) from None
        except GenerationError as error:
            raise self._failed(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            message = f"{self.base_url}: {type(error).__name__}: {reason}"
            raise self._failed(GenerationError(message)) from None

    def _failed(self, error: GenerationError) -> GenerationError:
        with self._lock:
            self.usage.failures += 1
        return error

    def _read(self, data: bytes) -> str:
        if len(data) > _LARGEST_ANSWER:
            raise GenerationError(
                f"{self.base_url}: an answer of more than {_LARGEST_ANSWER} bytes"
            )
        try:
            answer = json.loads(data)
            text = answer["choices"][0]["message"]["content"]
            if not isinstance(text, str):
                raise TypeError
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            raise GenerationError(
                f"{self.base_url}: the answer is not a chat completion: {show(data[:200])}"
            ) from None
        usage = answer.get("usage")
        if isinstance(usage, dict):
            with self._lock:
                self.usage.prompt_tokens += _count(usage.get("prompt_tokens"))
                self.usage.completion_tokens += _count(usage.get("completion_tokens"))
        return text

    def __repr__(self) -> str:
        return f"OpenAIProvider({self.base_url!r}, {self.model!r})"


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _refusal(error: urllib.error.HTTPError) -> GenerationError:
    try:
        said = error.read(300).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException):
        said = ""
    try:
        wait = float(error.headers.get("Retry-After", 0))
    except ValueError:  # a date
        wait = 0.0
    return GenerationError(
        f"{error.url}: HTTP {error.code} {error.reason}" + (f": {show(said)}" if said else ""),
        error.code,
        error.code not in _AGAIN,
        wait if 0 < wait < _LONGEST_WAIT else 0.0,
    )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A key must not travel to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener: Final = urllib.request.build_opener(_NoRedirects)
