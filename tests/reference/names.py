"""Names in texts in plain Python: what `spector._core.NameMatcher` does."""

import unicodedata

LONGEST = 12


def words(text):
    """(word as written, NFKC), in order."""
    found, word = [], ""
    for character in unicodedata.normalize("NFKC", text) + " ":
        if character == "_" or unicodedata.category(character)[0] in "LMN":
            word += character
        elif word:
            found.append(word)
            word = ""
    return found


def capital(character):
    return unicodedata.category(character) in ("Lu", "Lt")


class Names:
    def __init__(self):
        self.numbers = {}
        self.capital = {}

    def add(self, name, number):
        parts = words(name)
        if not 1 <= len(parts) <= LONGEST:
            return False
        key = tuple(part.casefold() for part in parts)
        numbers = self.numbers.setdefault(key, [])
        if number not in numbers:
            numbers.append(number)
        self.capital[key] = self.capital.get(key, True) and capital(parts[0][0])
        return True

    def find(self, text):
        parts = words(text)
        folded = [part.casefold() for part in parts]
        cased = any(capital(character) for part in parts for character in part)
        found, place = [], 0
        while place < len(parts):
            for length in range(min(LONGEST, len(parts) - place), 0, -1):
                key = tuple(folded[place : place + length])
                if key in self.numbers and not (
                    cased and self.capital[key] and not capital(parts[place][0])
                ):
                    found.append((" ".join(key), self.numbers[key], place, length))
                    place += length - 1
                    break
            place += 1
        return found
