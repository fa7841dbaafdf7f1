"""Reads the unmistakable markup of every family at once, for models whose names tell nothing."""

from formats.native.families.cohere import COHERE
from formats.native.families.deepseek import DEEPSEEK
from formats.native.families.gemma import GEMMA
from formats.native.families.glm import GLM
from formats.native.families.granite import GRANITE
from formats.native.families.hunyuan import HUNYUAN
from formats.native.families.internlm import INTERNLM
from formats.native.families.jamba import JAMBA
from formats.native.families.kimi import KIMI
from formats.native.families.lfm import LFM
from formats.native.families.longcat import LONGCAT
from formats.native.families.minimax import MINIMAX
from formats.native.families.mistral import MISTRAL
from formats.native.families.nemotron import NEMOTRON
from formats.native.families.qwen import QWEN
from formats.native.families.seed import SEED
from formats.native.families.step import STEP
from formats.native.format import NativeFormat

_FAMILIES = [
    KIMI, QWEN, DEEPSEEK, GLM, MINIMAX, GEMMA, MISTRAL, SEED, COHERE, JAMBA, NEMOTRON, GRANITE,
    HUNYUAN, INTERNLM, LONGCAT, STEP, LFM,
]  # fmt: skip

EVERY_FAMILY = NativeFormat(
    [*dict.fromkeys(grammar for family in _FAMILIES for grammar in family._grammars)]
)
