"""The rules of a pod failure policy about failed pods, and those of a success policy about
indexes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...objects.structs import ContainerStatus, Job, OnExitCodes, Pod, PodFailureRule
from .indexes import overlap, parse, total


class PolicyVerdict(msgspec.Struct, frozen=True):
    """The action of the first rule that matches a failed pod, "" if no rule does. FailJob has a
    message.
    """

    action: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        """True if the failure counts towards the backoff limits."""
        return self.action != "Ignore"


def judge(job: Job, pod: Pod) -> PolicyVerdict:
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate(policy.rules if policy else ()):
        why = _match_in_words(rule, pod)
        if why:
            message = f"{why} matching {rule.action} rule at index {number}"
            return PolicyVerdict(rule.action, message if rule.action == "FailJob" else "")
    return PolicyVerdict()


def _match_in_words(rule: PodFailureRule, pod: Pod) -> str:
    """Returns how a rule matches a pod, in words; "" if it does not."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    status = pod.status
    if rule.on_exit_codes is not None:
        for statuses in (status.container_statuses, status.init_container_statuses):
            for each in statuses:
                code = _exit_code(each, rule.on_exit_codes)
                if code:
                    return f"Container {each.name} for pod {name} failed with exit code {code}"
        return ""
    patterns = {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions}
    for condition in status.conditions:
        if (condition.type, condition.status) in patterns:
            return f"Pod {name} has condition {condition.type}"
    return ""


def _exit_code(status: ContainerStatus, rule: OnExitCodes) -> int:
    """Returns the exit code of a container that matches the rule; 0 if it does not match."""
    end = status.state.terminated
    if end is None or rule.container_name not in (None, status.name):
        return 0
    return end.exit_code if (end.exit_code in rule.values) == (rule.operator == "In") else 0


def satisfied_rule(job: Job, completions: int, succeeded: Sequence[range]) -> str:
    """Returns the rule of the success policy that is met; "" if none is."""
    policy = job.spec.success_policy
    for number, rule in enumerate(policy.rules if policy and succeeded else ()):
        count = rule.succeeded_count
        if rule.succeeded_indexes is not None:
            required = parse(rule.succeeded_indexes, completions)
            have = overlap(succeeded, required)
            met = bool(required) and (
                have == total(required) or (count is not None and have >= count)
            )
        else:
            met = count is not None and total(succeeded) >= count
        if met:
            return f"Matched rules at index {number}"
    return ""
