"""Recall: the memories of the latest pod templates, and the candidates made from them.

Rules that read one row at a time, or nodes alone, are asked when the memory is created and after a
change. Rules that read the cluster or the pod's claims are never remembered: they run for every
pod.
"""

from __future__ import annotations

from ...framework.measuring import RECALL, UNMEASURED, Record
from ...model.latest import Latest
from ...model.pod_info import PodInfo
from ...model.pod_template import PodTemplate
from ...model.snapshot import Snapshot
from ..failures import PluginError
from ..profile import Profile
from .candidates import MemoryCandidates, candidates_of
from .memory import Memory, NotReusableError

MOST_MEMORIES, MOST_HEAVY = 64, 4
MOST_BYTES = 1 << 18  # of heavy templates; what is derived of them may take thirty times as much
MOST_MET = 1024


class Recall:
    """The memories of the latest templates.

    A template gets a memory only when it recurs. So pods that never recur, such as the pods of a
    DaemonSet, which name a node each, do not displace other memories. Until then only its hash is
    kept: a template holds a whole pod, whose annotations may have 256 KiB.
    """

    def __init__(self) -> None:
        self._memories: Latest[PodTemplate, Memory] = Latest(MOST_MEMORIES)
        self._newest: Memory | None = None  # of these; pods come in batches of one template
        self._met: Latest[int, None] = Latest(MOST_MET)

    def candidates_for(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, record: Record = UNMEASURED
    ) -> MemoryCandidates | None:
        """Returns candidates for the pod from the memory of its template; None if it must be
        decided without one.
        """
        record.enter(RECALL)
        try:
            memory = self._memory(profile, info, snapshot)
            kept = True if memory is not None and memory.is_new else None
        except (NotReusableError, PluginError):
            self.drop(info.template)
            self._met.put(hash(info.template), None)
            memory, kept = None, False
        if kept is not None:
            record.kept(success=kept)
        candidates = None if memory is None else candidates_of(memory, info, snapshot, record)
        if candidates is None:
            record.missed()
        return candidates

    def _memory(self, profile: Profile, info: PodInfo, snapshot: Snapshot) -> Memory | None:
        """Returns an up-to-date memory for the pod's template, None if there is none yet. Raises
        NotReusableError and PluginError.
        """
        if info.pod.spec.node_name:
            return None  # which is no part of the template
        template = info.template
        memory = self._memories.get(template)
        if memory is not None and memory.profile is not profile:
            memory = None  # The profiles were swapped.
        if memory is not None:
            if not memory.refresh(snapshot):
                memory = memory.anew(info, snapshot)
        elif hash(template) in self._met:
            if template.is_heavy:
                if template.size > MOST_BYTES:
                    return None
                self._make_room(template.size)
            memory = Memory(profile, info, snapshot)
            del self._met[hash(template)]
        else:
            self._met.put(hash(template), None)
            return None
        if memory is not self._newest:
            self._memories.put(memory.template, memory)
            self._newest = memory
        return memory

    def _make_room(self, size: int) -> None:
        """Drops memories of heavy templates until there is room for one more, of this many bytes:
        those that no pod has used for longest.
        """
        heavy = [template for template in self._memories if template.is_heavy]
        used = size + sum([template.size for template in heavy])
        for number, template in enumerate(heavy):
            if len(heavy) - number < MOST_HEAVY and used <= MOST_BYTES:
                return
            self.drop(template)
            used -= template.size

    def drop(self, template: PodTemplate) -> None:
        """Drops the memory of a template."""
        self._memories.pop(template, None)
        self._newest = None
