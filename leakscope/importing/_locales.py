"""Dates as `date`, `dmesg -T` and syslog print them where the language is not English."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

# Months as the C library abbreviates them, from January on; longer words begin with these.
_MONTHS = (
    "jan feb mar apr may jun jul aug sep oct nov dec",  # English
    "janv févr mars avr mai juin juil août sept oct nov déc",  # French
    "jan feb mär apr mai jun jul aug sep okt nov dez",  # German
    "jän feb mrz apr mai jun jul aug sep okt nov dez",  # Austrian
    "ene feb mar abr may jun jul ago sep oct nov dic",  # Spanish
    "gen feb mar apr mag giu lug ago set ott nov dic",  # Italian
    "jan fev mar abr mai jun jul ago set out nov dez",  # Portuguese
    "jan feb mrt apr mei jun jul aug sep okt nov dec",  # Dutch
    "jan feb mar apr maj jun jul aug sep okt nov dec",  # Swedish, Danish
    "jan feb mar apr mai juni juli aug sep okt nov des",  # Norwegian
    "tammi helmi maalis huhti touko kesä heinä elo syys loka marras joulu",  # Finnish
    "sty lut mar kwi maj cze lip sie wrz paź lis gru",  # Polish
    "led úno bře dub kvě čer čec srp zář říj lis pro",  # Czech
    "led úno bře dub kvě čen čec srp zář říj lis pro",
    "sij vel ožu tra svi lip srp kol ruj lis stu pro",  # Croatian
    "ian feb mar apr mai iun iul aug sep oct nov dec",  # Romanian
    "jan febr márc ápr máj jún júl aug szept okt nov dec",  # Hungarian
    "oca şub mar nis may haz tem ağu eyl eki kas ara",  # Turkish
    "янв фев мар апр май июн июл авг сен окт ноя дек",  # Russian
    "янв февр мар апр мая июня июля авг сент окт нояб дек",
    "січ лют бер кві тра чер лип сер вер жов лис гру",  # Ukrainian
)
_WEEKDAYS = (  # from Monday on
    "mon tue wed thu fri sat sun", "lun mar mer jeu ven sam dim", "mo di mi do fr sa so",
    "lun mar mié jue vie sáb dom", "lun mar mer gio ven sab dom", "seg ter qua qui sex sáb dom",
    "ma di wo do vr za zo", "mån tis ons tors fre lör sön",
    "man tir ons tor fre lør søn", "ma ti ke to pe la su", "pon wto śro czw pią sob nie", "pn wt śr cz pt so nd",
    "po út st čt pá so ne", "pon uto sri čet pet sub ned", "lu ma mi jo vi sâ du", "pzt sal çrş prş cum cmt paz",
    "пн вт ср чт пт сб вс", "пн вт ср чт пт сб нд",
    "一 二 三 四 五 六 日", "月 火 水 木 金 土 日", "월 화 수 목 금 토 일",
)  # fmt: skip
_TIME = re.compile(r"(\d\d?):(\d\d):(\d\d)(?:[.,]\d+)?")
_A_TIME_AND_A_YEAR = re.compile(r"(?=.{0,80}\d:\d\d:\d)(?=.{0,80}\b\d{4}(?!\d))")
_NUMBERED_MONTH = re.compile(r"(\d{1,2})[月월]")
_NUMBER = re.compile(r"(\d{1,4})(?:[.,]|年|日|년|일)?")
_ZONE = re.compile(r"\(?(?:UTC|GMT)?([+-]\d\d?(?::?\d\d)?)\)?|\(?(UTC|GMT)\)?|[A-Z]{3,5}")
_WORD = re.compile(r"[^\W\d_]{1,12}[.,]?")
_LONGEST_WORD = 12

Fields = tuple[list[int], "str | None"]


def fields(text: str) -> Fields | None:
    """Year, month, day, hour, minute, second, and the zone as it is printed; None where a word is none of a date.

    A word may be a month of two languages (`lis`: November, or October): the weekday decides, or nobody knows.
    """
    if not _A_TIME_AND_A_YEAR.match(text):
        return None
    time: list[int] | None = None
    is_unknown = False  # one word of a language that is not known here may be the weekday
    year = day = numbered = None
    months: frozenset[int] = frozenset()
    zone: str | None = None
    weekdays: frozenset[int] | None = None
    for token in text.split():
        if match := _TIME.fullmatch(token):
            time = [int(part) for part in match.groups()]
        elif match := _NUMBERED_MONTH.fullmatch(token):
            numbered = int(match[1])
        elif match := _NUMBER.fullmatch(token):
            if len(match[1]) == 4:
                year = int(match[1])
            elif day is None:
                day = int(match[1])
            else:
                return None
        elif time is not None and (match := _ZONE.fullmatch(token)):
            zone = match[1] or match[2] or token
        elif len(token) <= _LONGEST_WORD and _is_word(token):
            word = token.strip(".,").casefold()
            # "mar" is Tuesday or March, "月" Monday: the first of two words is the day.
            if weekdays is None and not months and (on := _weekdays(word)) and _more_words(text, token):
                weekdays = on
            elif not months and (found := _months(word)):
                months = found
            elif weekdays is None and not is_unknown:
                weekdays = _weekdays(word)
                is_unknown = weekdays is None
            else:
                return None
        else:
            return None
    if numbered is not None:
        months = frozenset([numbered])
    if time is None or year is None or day is None or not months:
        return None
    fitting = [month for month in months if _falls_on(year, month, day, weekdays)]
    return ([year, fitting[0], day, *time], zone) if len(fitting) == 1 else None


def _is_word(token: str) -> bool:
    return _WORD.fullmatch(token) is not None


def _more_words(text: str, token: str) -> bool:
    """Whether a month follows."""
    rest = text.partition(token)[2].split()
    words = [other.strip(".,").casefold() for other in rest if _is_word(other)]
    return any(_NUMBERED_MONTH.fullmatch(other) for other in rest) or any(map(_months, words))


@lru_cache(maxsize=1024)
def _months(word: str) -> frozenset[int]:
    """By the longest abbreviation that the word begins with: `marras` is none of March's."""
    best, found = 0, set[int]()
    for line in _MONTHS:
        for number, known in enumerate(line.split(), 1):
            if word.startswith(known) and len(known) >= best:
                found = {number} if len(known) > best else found | {number}
                best = len(known)
    return frozenset(found)


@lru_cache(maxsize=1024)
def _weekdays(word: str) -> frozenset[int] | None:
    """0 is Monday; None: no weekday of a language known here, so that nothing can be said against a date."""
    word = word.removeprefix("星期").removesuffix("曜日").removesuffix("요일")
    found = {
        number for line in _WEEKDAYS for number, known in enumerate(line.split())
        if word == known or (len(known) > 2 and word.startswith(known))
    }  # fmt: skip
    return frozenset(found) or None


def _falls_on(year: int, month: int, day: int, weekdays: frozenset[int] | None) -> bool:
    try:
        return weekdays is None or date(year, month, day).weekday() in weekdays
    except ValueError:
        return False
