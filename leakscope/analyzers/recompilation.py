"""torch.compile, jax or another compiler that compiles the same functions again and again.

Looks for:     compiled graphs whose number still rises after the warm-up; memory that stays of what jax, tf.function or
               numba compiled.
Why:           every graph and the guards in front of it stay in memory, and the step that compiles takes seconds.
Decides by:    min_recompiles compilations of functions that were compiled before, or one in nearly every training step,
               both in the middle and in the last third of the run, and min_pace of the pace kept up to the end. Of what
               others found to grow, it claims torch's own caches and code that no line of the program adds. Of other
               compilers, samples: most of what
               stays and was asked for below the program's functions was so while they compiled, that rises up to the
               end, and memory grows.
Mistaken when: the inputs have a few hundred shapes only, and the recording ends before all of them came by.
Do:            let the size be dynamic, pad to a few sizes, or keep what changes out of the compiled function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..agent import libraries
from ..confidence import AGAINST, NEUTRAL, SURE, Ground, graded
from ..evidence.explained import is_made_by_a_compiler
from ..evidence.sentences import at_line, curve
from ..facts.case import Case
from ..facts.code.adding import CALLS, Line, find_calls, imported, line_at
from ..facts.code.index import Site, Source, index_of, tail
from ..facts.code.starts import calls
from ..facts.growth.processes import ProcessGrowth
from ..facts.series.arithmetic import Floats
from ..facts.subject import definition_of
from ..facts.tables import int_of, only, text_of
from ..facts.where.compilers import compiling
from ..facts.where.stacks import GrowthLine, lines_of
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import GROWTH, MAKES
from ..storage import Row, Rows
from ..units import FEWEST, MOST, NEARLY_ALL, format_bytes, over

NEEDS = ("process_samples", "takes")
TELLS = (GROWTH, MAKES)
AFTER = ("*", "eval-accumulation")  # it claims what the others leave
_KIND = "recompilation"
_MENDS = {
    ("size mismatch", "stride mismatch", ".size()"): (
        "compile with dynamic=True or mark the size with torch._dynamo.mark_dynamic: one graph then serves all",
        "or pad the inputs to a few fixed sizes",
    ),
    ("grad_mode", "requires_grad"): (
        "compile one function for training and one for evaluation: they differ in what needs gradients",
    ),
    ("==", "obj_id", "id match"): ("keep the value that changes out of the compiled function, or make it a tensor",),
}
# Of tf.function, by what differs from one trace to the next (agent/compilers/tensorflow.py says it).
_TRACED_FOR = {
    "value ": "pass it as a tensor: tf.function traces again for each new Python number or string, and keeps each "
    "graph",
    "shape ": "give the function an input_signature with None for the size that differs, or reduce_retracing=True: one "
    "graph then serves all",
}
_OWN_LIBRARIES = (None, "torch", "triton", "tensorflow")


@dataclass(frozen=True)
class _Compiled:
    """What one process compiled. ``again`` counts compilations of functions compiled before, at each of ``time_s``."""

    process: ProcessGrowth
    last: Row
    time_s: Floats
    again: NDArray[Any]
    graphs: int
    middle: int
    late: int
    is_traced: bool  # by tf.function
    steps: float  # of training, in the middle and at the end; infinitely many where nobody counts any

    @property
    def name(self) -> str:
        return "tf.function" if self.is_traced else "torch.compile"

    @property
    def after_warm_up(self) -> int:
        return self.middle + self.late

    @property
    def seen_until(self) -> float:
        """Share of the process's life that lies before the last look."""
        born_s, died_s = float(self.process.time_s[0]), float(self.process.time_s[-1])
        return over(float(self.time_s[-1]) - born_s, died_s - born_s)


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_recompiles: int = 8,  # dynamo itself calls so many variants of one function too many: its recompile_limit
    min_pace: float = 0.25,  # of the middle third, kept up in the last: a set of shapes that fills up slows down
    min_seen: float = 0.7,  # of the process's life that has to lie before the last look
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process that compiles on and on, or how many graphs there were."""
    compiled = [one for process in case.growth.processes for one in _compiled(process)]
    traced = {one.process.pid for one in compiled if one.is_traced}
    others = [one for one in _of_others(case, so_far) if one.subject.pid not in traced]
    yield from others
    if not compiled and not others:
        yield Skipped(_KIND, "torch.compile was not used", applies=False)
    for one in compiled:
        if one.time_s.size <= FEWEST or one.seen_until < min_seen:
            yield Skipped(_KIND, f"too few snapshots of {one.process.label} to see whether it keeps compiling")
        elif (
            one.after_warm_up >= min(min_recompiles, max(FEWEST, NEARLY_ALL * one.steps))
            and one.late >= max(1.0, min_pace * one.middle)
            and one.middle
        ):
            yield _finding(case, one, so_far)
        else:
            yield _ruled_out(one)


def _of_others(case: Case, so_far: Sequence[Finding]) -> Iterator[Finding]:
    """Of compilers that count nothing: what stays of what was asked for while they ran."""
    for process in case.carriers() if case.growth.leaking else ():
        one = _compiled_in(case, process)
        bytes = _left(process, so_far)
        if one is None or bytes < MOST * process.growth_bytes:
            continue
        under = f" under {one.line.function}()" if one.line.function not in (None, "<module>") else ""
        yield case.finding(
            _KIND,
            f"{one.library} compiles again and again{under}, and keeps what it compiled: {format_bytes(bytes)}",
            grounds=[Ground("memory that stays was asked for by a compiler", graded(one.share, NEUTRAL, SURE))],
            bytes=bytes,
            process=process,
            line=one.made or one.line,
            holder=f"what {one.library} compiled",
            library=one.library,
            evidence=one.evidence(),
            doubts=["that is the larger part of what was sampled: the rest is assumed to come from compiling, too"],
            remedy=one.remedy(),
            mechanism="compile-cache",
        )


def _compiled(process: ProcessGrowth) -> Iterator[_Compiled]:
    """By torch.compile, and by tf.function, of which no frames are counted."""
    rows = process.rows("compile_counters")
    is_traced = rows["compiled_frame_count"].isna()
    for part, by_tensorflow in ((only(rows, ~is_traced), False), (only(rows, is_traced), True)):
        if len(part):
            yield _counted(process, part, by_tensorflow)


def _counted(process: ProcessGrowth, rows: Rows, is_traced: bool) -> _Compiled:
    time_s = rows["time_s"].to_numpy(dtype=np.float64)
    graphs = rows["unique_graph_count"].fillna(0).to_numpy()
    again = rows["recompile_count"].to_numpy()  # torch 2.0 does not count them apart
    again = _never_falling(graphs if np.isnan(again).all() else np.nan_to_num(again))
    begin_s = float(process.time_s[0]) if process.first_step_s is None else process.first_step_s
    third_s = (time_s[-1] - begin_s) / 3
    first, second = (_count_after(time_s, again, begin_s + n * third_s, third_s / 2) for n in (1, 2))
    middle, late = round(second - first), round(again[-1] - second)
    all = int(_never_falling(graphs)[-1])
    return _Compiled(
        process, rows.iloc[-1], time_s, again, all, middle, late, is_traced, _steps_since(process, begin_s + third_s)
    )


def _steps_since(process: ProcessGrowth, since_s: float) -> float:
    rows = process.rows("sentinels")
    rows = only(rows, rows["step"].notna())
    steps = rows["step"].to_numpy(dtype=np.float64)
    return float(steps[-1] - np.interp(since_s, rows["time_s"], steps)) if len(rows) else float("inf")


def _count_after(time_s: Floats, count: NDArray[Any], at_s: float, within_s: float) -> float:
    """The count at the first look after a moment: what was compiled before that look may belong to the warm-up.

    In a short run the next look may come so late that it leaves nothing to compare with: then by a straight line.
    """
    after = min(int(np.searchsorted(time_s, at_s)), time_s.size - 1)
    if time_s[after] <= at_s + within_s:
        return float(count[after])
    return float(np.interp(at_s, time_s, count))


def _never_falling(count: NDArray[Any]) -> NDArray[Any]:
    """A count that goes on where ``torch._dynamo.reset()`` set it back."""
    steps = np.diff(count, prepend=0.0)
    return np.cumsum(np.where(steps < 0, count, steps))


def _finding(case: Case, one: _Compiled, so_far: Sequence[Finding]) -> Finding:
    bytes = _unexplained_bytes(case, one, so_far)
    function, reason = text_of(one.last, "function"), text_of(one.last, "recompile_reason")
    file, line = text_of(one.last, "owner_file"), int_of(one.last, "owner_line")
    asked = _called(case, one.process, function) if one.is_traced else _asked_for(case.sources, file)
    figures = {"unique_graph_count": one.graphs, "middle_third": one.middle, "last_third": one.late}
    again = f"functions were compiled again {one.middle} times in the middle third of the run and "
    again += f"{one.late} times in the last; {one.graphs} graphs in all"
    taken = (
        f"all growth without another explanation ({format_bytes(bytes)}) is attributed to the graphs: the size of a "
    )
    newest = f"{'the arguments that differed last' if one.is_traced else 'the newest reason dynamo gave'}: {reason}"
    return case.finding(
        _KIND,
        f"{one.name} compiles {function or 'functions'} again and again: "
        f"{one.after_warm_up} times after the warm-up, with no end in sight",
        grounds=[
            Ground("compilations were counted", SURE),
            Ground("that the memory is theirs was not measured", AGAINST) if bytes else None,
        ],
        bytes=bytes,
        process=one.process,
        line=asked or definition_of(one.last, function),
        holder=f"{one.graphs} compiled graphs",
        library="tensorflow" if one.is_traced else "torch._dynamo",
        evidence=[
            Evidence(again, figures),
            Evidence(f"most often lately: {function} ({file}:{line})", {"line": line}) if function else None,
            at_line(asked, "calls it" if one.is_traced else "asks for it"),
            Evidence(newest, {"recompile_reason": reason}) if reason else None,
        ],
        doubts=[f"{taken}graph was not measured" if bytes else None],
        remedy=_remedy_of_traces(reason) if one.is_traced else _remedy(reason),
        series=[curve("compiled again", one.time_s, one.again, "compilations")],
    )


def _asked_for(sources: Sequence[Source], file: str | None) -> Line | None:
    """The user's call of ``torch.compile``: there ``dynamic`` and the backend are said.

    Of several only the first is shown, and only where what is compiled is no function of the user's but a module of
    torch: else the function tells more.
    """
    asked = [call.line for call in calls(sources, "compile") if call.module == "torch"]
    is_users = any(source.file == file for source in sources)
    return asked[0] if len(asked) == 1 or (asked and not is_users) else None


def _called(case: Case, process: ProcessGrowth, function: str | None) -> GrowthLine | None:
    """The line that was seen to call it as memory was asked for that stays."""
    lines = lines_of(case.growth, process, case.sources) if function else []
    return next((line for line in lines if f"{function}(" in line.text), None)


def _unexplained_bytes(case: Case, one: _Compiled, so_far: Sequence[Finding]) -> int:
    """Growth of this process that no other finding claims; 0 where nothing leaks, or where another library was seen.

    Of native memory and of what malloc keeps free it comes first: graphs and kernels, and what compiling drops, lie
    there. That many graphs were compiled is counted; that this memory is theirs is not.
    """
    if not case.growth.leaking:
        return 0
    seen = lines_of(case.growth, one.process, case.sources)
    # It asks other libraries while it compiles.
    while_compiling = any(file in line.stack for line in seen[:1] for file in libraries.names_of(libraries.COMPILER))
    is_anothers = bool(seen) and seen[0].library not in _OWN_LIBRARIES and not while_compiling
    if is_anothers and seen[0].share >= MOST:
        return 0
    return _left(one.process, so_far)


def _left(process: ProcessGrowth, so_far: Sequence[Finding]) -> int:
    """What no other finding claims of its growth, but for what the compiler makes."""
    own = (f for f in so_far if f.subject.pid == process.pid and not f.wasted and not is_made_by_a_compiler(f))
    explained = sum(f.bytes for f in own)
    return max(0, process.growth_bytes - explained)


def _remedy(reason: str | None) -> list[str]:
    """By what dynamo's reason says; it then compiles once, or once for each size."""
    said = (how for words, how in _MENDS.items() if any(word in (reason or "").lower() for word in words))
    return [*next(said, ()), "TORCH_LOGS=recompiles prints every reason as it happens"]


def _remedy_of_traces(reason: str | None) -> list[str]:
    """By what differed: which argument, and how."""
    said = [(name, how) for name, _, text in (part.partition(": ") for part in (reason or "").split("; "))
            for word, how in _TRACED_FOR.items() if word in text]  # fmt: skip
    return [f"{name}: {how}" for name, how in said] or [*_TRACED_FOR.values()]


def _ruled_out(one: _Compiled) -> RuledOut:
    figures = {"unique_graph_count": one.graphs, "middle_third": one.middle, "last_third": one.late}
    again = (
        f"functions were compiled again {one.middle} times in the middle third of the run, {one.late} times in the last"
    )
    if not one.after_warm_up:
        again = "no function was compiled again after the warm-up"
    label = f"{one.process.label} compiled {one.graphs} graphs"
    return RuledOut(_KIND, f"{label} and settled: {again}", figures)


# ---- other compilers, by the calls under which memory was asked for


class Compiled(NamedTuple):
    """``share``: of what stays and has a line, asked for while it compiled; ``line``: under which most of that was.

    ``made``: where the function that is compiled is made anew for each call of the user's function; None elsewhere.
    """

    library: str
    share: float
    sample_count: int
    line: GrowthLine
    made: Line | None
    let_go: str

    def evidence(self) -> Iterator[Evidence]:
        figures = {"share": round(self.share, 3), "samples": self.sample_count}
        text = f"{self.share:.0%} of what stays was asked for while {self.library} compiled"
        yield Evidence(f"{text}, based on {self.sample_count:,} samples", figures)
        if self.made is not None:
            yield at_line(self.made, "makes a new function to compile each time")

    def remedy(self) -> Iterator[str]:
        if self.made is None:
            yield self.let_go
            return
        yield (
            f"make the compiled function once, outside {self.made.function}, and hand it what differs from call to "
            f"call: {self.made.text}"
        )


def _compiled_in(case: Case, process: ProcessGrowth) -> Compiled | None:
    """The library that still compiles, and did so as most of what the process came to hold was asked for."""
    one = compiling(case.growth, process)
    lines = lines_of(case.growth, process, case.sources)
    if one is None or not one.goes_on or not lines:
        return None
    places = {(own.file, own.line) for own in one.own}
    line = next((line for line in lines if (line.file, line.line) in places), lines[0])
    made = _made_for(line, case.sources, one.compiler.also_by)
    samples = sum(own.sample_count for own in one.own)
    return Compiled(one.compiler.library or "", one.share, samples, line, made, one.compiler.let_go or "")


def _made_for(line: GrowthLine, sources: Sequence[Source], names: Sequence[str]) -> Line | None:
    """Where what compiles at a line is made anew each time: handed to the compiler by a call, or by a decorator of a
    function that is defined in another, in the line's own function or in one that it calls."""
    asks = find_calls(sources, *names)
    index = index_of(sources, tail(names[0]))
    for scope, above in ((scope, scope.parent) for scope in index.scopes):
        for one in getattr(scope.node, "decorator_list", ()):
            if above is None or above.kind != "function":
                continue
            if any(".".join(imported(node, above)) in names for node in ast.walk(one) if isinstance(node, ast.expr)):
                is_once = not index.is_repeated(Site(one, ()), above)
                asks.append(line_at(index, above, one, CALLS, 1.0)._replace(is_once=is_once))
    called = [(function, *call) for function, calls in index.callers.items() for call in calls]
    for ask in asks:
        by = {caller.qualname for function, caller, site in called if function.qualname == ask.function
              and index.is_repeated(site, caller)}  # fmt: skip
        if ask.function is not None and not ask.is_once and line.function in {ask.function, *by}:
            return ask
    return None
