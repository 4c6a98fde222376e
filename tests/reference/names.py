"""Names in texts in plain Python: what `spector._core.NameMatcher` does."""

import unicodedata

LONGEST = 12


def words(text):
    """Each word as written in the NFKC form of the text, and where it ends."""
    found, word = [], ""
    for place, character in enumerate(unicodedata.normalize("NFKC", text) + " "):
        if character == "_" or unicodedata.category(character)[0] in "LMN":
            word += character
        elif word:
            found.append((word, place))
            word = ""
    return found


def capital(character):
    return unicodedata.category(character) in ("Lu", "Lt")


class Names:
    def __init__(self):
        self.numbers = {}
        self.capital = {}

    def add(self, name, number):
        parts = [word for word, _ in words(name)]
        if not 1 <= len(parts) <= LONGEST:
            return False
        key = tuple(part.casefold() for part in parts)
        numbers = self.numbers.setdefault(key, [])
        if number not in numbers:
            numbers.append(number)
        self.capital[key] = self.capital.get(key, True) and capital(parts[0][0])
        return True

    def find(self, text):
        parts, ends = [word for word, _ in words(text)], [end for _, end in words(text)]
        folded = [part.casefold() for part in parts]
        cased = any(capital(character) for part in parts for character in part)
        found, place = [], 0
        while place < len(parts):
            for length in range(min(LONGEST, len(parts) - place), 0, -1):
                key = tuple(folded[place : place + length])
                if key in self.numbers and not (
                    cased and self.capital[key] and not capital(parts[place][0])
                ):
                    begin = ends[place] - len(parts[place])
                    end = ends[place + length - 1]
                    found.append((" ".join(key), self.numbers[key], begin, end))
                    place += length - 1
                    break
            place += 1
        return found
