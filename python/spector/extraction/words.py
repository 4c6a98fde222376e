"""Lists of words that extraction looks at."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: What stands for something else (EXT-5).
PRONOUNS: Final = _words(
    """
    i me my mine myself you your yours yourself he him his himself she her hers herself it its
    itself we us our ours ourselves they them their theirs themselves this that these those who whom
    whose which what someone somebody something anyone anybody anything everyone everybody
    everything nobody nothing none one ones other others another here there
    """
)

#: What models write where they have nothing to say, also with an article (EXT-5).
PLACEHOLDERS: Final = _words(
    """
    user assistant speaker person people man woman thing things stuff
    name names entity entities type types role roles source target relation relations subject
    object example placeholder unknown unspecified undefined unnamed null nil n/a na tbd other text
    string value
    """
)

#: What begins a sentence or a run of capitals without being part of a name.
COMMON: Final = _words(
    """
    a an the this that these those my your his her its our their some any no each every all both
    i you he she it we they me him us them who whom whose which what when where why how
    and or but nor so yet for if then else because since while although though as than whether
    in on at by to of from with without about after before during into onto over under between
    through against within upon via per until till up down out off
    is are was were be been being am do does did has have had can could may might must shall should
    will would not yes ok okay hi hello hey thanks thank please sorry well oh wow
    also however meanwhile moreover furthermore therefore thus hence instead later now today
    tomorrow yesterday here there once again still just only even perhaps maybe finally let lets
    note see use
    january february march april may june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday
    """
)

#: The same where it stands alone.
ALONE: Final = _words(
    """
    first second third next last another other such many much more most few several one two three
    four five six seven eight nine ten new old
    """
)

#: What stands before the name of a person.
TITLES: Final = _words(
    "mr mrs ms miss dr prof professor sir lady lord king queen prince princess president"
)

_LAST: Final = {
    "ORGANIZATION": """inc ltd llc gmbh corp corporation company co university institute college
        school academy bank foundation association society committee council agency ministry
        department commission club party union band orchestra records studios press""",
    "LOCATION": """street avenue road square county city town village river lake sea ocean island
        islands mountain mountains valley bay beach park airport station bridge province district
        republic kingdom state""",
    "EVENT": "war battle festival conference championship cup olympics election",
}
#: The type of a name by its last word.
TYPE_OF_LAST: Final = {word: kind for kind, words in _LAST.items() for word in words.split()}
