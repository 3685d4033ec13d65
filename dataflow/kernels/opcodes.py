"""The opcodes of operators: the first word of each operator's block. Each is named after the kernel that runs."""

from enum import IntEnum


class Opcode(IntEnum):
    """The kind of an operator."""

    FILTER_RANGE = 0
    FILTER_TRUE = 1
    TAKE = 2
    ADD = 3
    SUBTRACT = 4
    MULTIPLY = 5
    EQUAL = 6
    LESS = 7
    AND = 8
    OR = 9
    SUBTRACT_FROM = 10
    COALESCE = 11
    LOOKUP = 12
    MEMBER = 13
    CHOOSE = 14
    FILL = 15
    PACK = 16
    UNPACK = 17
    INSERT = 18
    SETTLE = 19
    JOIN = 20
    AGGREGATE = 21
    THRESHOLD = 22
    MERGE = 23
    CONSOLIDATE = 24
    COLLECT = 25
    NEEDS_REHASH = 26
    UPDATE_GROUPS = 27
    BUCKET = 28
    INTERN = 29
    INPUT_TEXTS = 30
    NUMBERED_TEXTS = 31
    NUMBER_TEXTS = 32
    MATCH = 33
    SUBSTRING = 34
    PREFIX = 35
    HASHES = 36
    SEND = 37
    RECEIVE = 38
    COMPACT = 39
    EXPAND = 40
    PREFIX_AGGREGATE = 41
    ENTER = 42
    ITERATE = 43
    LOOP_JOIN = 44
    BUFFER_UPDATES = 45
    REPEAT = 46
    INSERT_INDEX = 47
    SETTLE_INDEX = 48
    EXTEND = 49
    SET_BIT = 50
    QUOTIENT = 51
    PRECEDES = 52
    TAKE_SLICE = 53
    DEAL = 54
