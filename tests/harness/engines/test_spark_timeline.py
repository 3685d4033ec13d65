"""The bars of a micro-batch follow from Spark's report and the times of its stages."""

from __future__ import annotations

from deltamark.harness.engines.spark import StageRun, timeline

REPORT = {
    "batchId": 7,
    "timestamp": "2026-01-02T03:04:05.000Z",
    "durationMs": {"walCommit": 5, "queryPlanning": 15, "addBatch": 75, "commitOffsets": 5, "triggerExecution": 100},
    "stateOperators": [
        {"numShufflePartitions": 2, "allUpdatesTimeMs": 20, "commitTimeMs": 8},
        {"numShufflePartitions": 2, "allUpdatesTimeMs": 12, "commitTimeMs": 4},
    ],
}
AT = 1767323045000.0
STAGES = [
    StageRun(AT + 30, AT + 40, AT + 32, tasks=1, starting=2, running=5),
    StageRun(AT + 40, AT + 60, AT + 42, tasks=2, starting=4, running=30),
    StageRun(AT + 60, AT + 90, AT + 65, tasks=2, starting=6, running=40),
]


def parts(depth):
    return [(bar.name, bar.start, bar.end) for bar in timeline(REPORT, STAGES) if bar.depth == depth]


def test_phases_follow_each_other_through_the_whole_batch():
    assert parts(0) == [("micro-batch 7", 0, 100)]
    _, starts, ends = zip(*parts(1), strict=True)
    assert starts[1:] == ends[:-1]
    assert (starts[0], ends[-1]) == (0, 100)


def test_stages_are_where_they_ran():
    assert parts(2) == [("stage 0", 30, 40), ("stage 1", 40, 60), ("stage 2", 60, 90)]


def test_a_mean_task_begins_with_its_stage_and_has_the_state_of_its_own_operator():
    assert parts(3) == [
        ("task starts", 32, 34), ("Python", 34, 39),
        ("task starts", 42, 44), ("Python and state", 44, 50), ("state commit", 50, 52),
        ("task starts", 65, 68), ("Python and state", 68, 78), ("state commit", 78, 82),
    ]  # fmt: skip


def test_a_batch_whose_stages_spark_has_forgotten_keeps_its_phases():
    assert {bar.depth for bar in timeline(REPORT, [])} == {0, 1}
