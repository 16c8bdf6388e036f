"""The verbs of what-ifs: a row of VERBS each, with its words, its meaning, and what is done to the
tried cluster and to a real one. Help, documentation and the page take the verbs from here.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from inspect import getdoc
from itertools import count
from typing import Any
from urllib.parse import quote

import msgspec

from berth.actors.client.access import Calls
from berth.actors.client.rest import CONTENT_TYPES, ApiError
from berth.actors.configuration.file import load_file
from berth.actors.scheduling.kube.core import Taint, Toleration
from berth.actors.scheduling.kube.taints import tolerates_any
from berth.config.load import from_mapping

from ...kubernetes.api.types.api_documents import Place, controller_in
from ...kubernetes.api.types.resources import BY_KIND, KINDS, Kind
from ...kubernetes.api.writes.evictions import stays_in_drain
from ..explain.changes.another_node import node_like
from ..explain.cluster_source import SourceError
from ..explain.subject import Subject
from ..explain.words import counted_words, listed
from ..feed.page_actions import OfferedVerb
from ..manifests.manifest_files import paths_of
from ..manifests.manifests import (
    STRICT,
    ManifestError,
    Manifests,
    Reading,
    read,
    read_objects,
    read_text,
)
from .question import Content, Written
from .steps import StepError, changed_taints, taint_of
from .trial import Trial, apply
from .weights import with_weight
from .workload_pods import add_like, reconcile, workload_to_scale

Document = dict[str, Any]
NUMBER, FILE, MORE = "NUMBER", "FILE", "..."
MOST_DIGITS = 11  # and the sign
MOST_CHARACTERS = 5000  # of a sentence
MOST_ADDED = 1000
NOT_FOUND, CONFLICT = 404, 409
TOO_MANY_REQUESTS = 429  # A disruption budget holds the pod.
NAMESPACES, NODES, PODS = (BY_KIND["v1", kind] for kind in ("Namespace", "Node", "Pod"))
_OBJECTS = '{"apply": [OBJECT, ...]}'
_MANIFESTS = '{"manifests": "YAML"}'
_CONFIGURATION = '{"configure": KUBESCHEDULERCONFIGURATION}'


class RealCluster:
    """A cluster that is changed by requests, as those of kubectl. Names are in `namespace`."""

    def __init__(self, access: Calls, namespace: str) -> None:
        self.access = access
        self.namespace = namespace

    async def take(self, step: Step) -> str:
        """Takes a step, and returns a sentence about it. Raises SourceError or ApiError."""
        if step.verb.does is None:
            problem = "the scheduler of the toy cluster keeps its configuration"
            raise SourceError(f"{step.verb.name}: {problem}")
        return await step.verb.does(self, step)

    async def node(self, name: str) -> Document:
        path = f"{NODES.path()}/{quote(name, safe='')}"
        node: Document = await self.access.call("GET", path, dict)
        return node

    async def patch(self, kind: Kind, namespace: str, name: str, patch: Document) -> None:
        path = f"{kind.path(namespace)}/{quote(name, safe='')}"
        await self.access.call("PATCH", path, dict, patch, CONTENT_TYPES["merge"])

    async def ensure(self, kind: Kind, namespace: str, document: Document) -> bool:
        """Creates an object; False if it exists."""
        try:
            await self.access.call("POST", kind.path(namespace), dict, document)
        except ApiError as refused:
            if refused.code != CONFLICT:
                raise
            return False
        return True

    async def evict(self, metadata: Document) -> bool:
        """Evicts a pod; False if a disruption budget holds it."""
        namespace, name = metadata["namespace"], metadata["name"]
        path = f"{PODS.path(namespace)}/{quote(name, safe='')}/eviction"
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
        }
        try:
            await self.access.call("POST", path, dict, eviction)
        except ApiError as refused:
            if refused.code not in (NOT_FOUND, TOO_MANY_REQUESTS):
                raise
            return refused.code == NOT_FOUND
        return True


class Verb(msgspec.Struct, frozen=True):
    """A verb. In its form, words in capitals stand for those of the user; the last one may have
    dots, and then stands for several.

    `tries` changes the tried cluster, and its docstring is the help; it may raise SourceError,
    ConfigError or RegistryError. `does` changes a real cluster and returns a sentence, or raises
    SourceError or ApiError; without it the verb is only tried. The page shows `title`, or the name,
    and `labels` at fields that have others elsewhere. `content` is a step with the file's content.
    """

    form: str
    tries: Callable[[Trial, Step], None]
    does: Callable[[RealCluster, Step], Awaitable[str]] | None = None
    title: str = ""
    labels: dict[str, str] = {}
    content: str = ""

    @property
    def words(self) -> list[str]:
        return self.form.split()

    @property
    def help(self) -> str:
        text = " ".join((getdoc(self.tries) or "").split()).rstrip(".")
        return text[:1].lower() + text[1:]

    @property
    def name(self) -> str:
        return self.words[0]

    @property
    def places(self) -> list[str]:
        """The words in capitals."""
        return [word for word in self.words if not word.islower()]


class Step(msgspec.Struct, frozen=True):
    """A verb, and the words in the places of its capitals, or the content of the file."""

    verb: Verb
    words: tuple[str, ...]
    content: Content | None = None

    @property
    def number(self) -> int:
        """The word in the place of NUMBER."""
        return int(self.words[self.verb.places.index(NUMBER)])

    def change(self, trial: Trial) -> None:
        self.verb.tries(trial, self)


def parsed(written: Written, *, files: bool = True) -> Step:
    """Returns the step in a text. Without `files`, steps that read a file are refused. Raises
    SourceError.
    """
    if isinstance(written, Content):
        return _with_content(written)
    if len(written) > MOST_CHARACTERS:
        raise SourceError(f"expected at most {MOST_CHARACTERS} characters")
    try:
        words = shlex.split(written)
    except ValueError as problem:
        raise SourceError(str(problem)) from None
    verb = VERBS.get(words[0]) if words else None
    if verb is None:
        raise SourceError(f"expected one of {', '.join(VERBS)}")
    form = verb.words
    if form[-1].endswith(MORE):
        form += [form[-1]] * (len(words) - len(form))
    pairs = list(zip(form, words, strict=False))
    if len(words) != len(form) or any(of != word for of, word in pairs if of.islower()):
        quotes = "; a name with spaces goes into quotes" if len(words) > len(form) else ""
        raise SourceError(f"expected {verb.form!r}{quotes}")
    for of, word in pairs:
        if of == NUMBER and not _is_number(word, negative=verb.name == "priority"):
            raise SourceError(f"expected a number, got {word!r}")
        if of == NUMBER and len(word) > MOST_DIGITS:
            raise SourceError(f"expected at most {MOST_DIGITS} digits")
    if FILE in verb.words and not files:
        raise SourceError(f"no file is read here; expected {verb.content}")
    return Step(verb, tuple(word for of, word in pairs if not of.islower()))


def _with_content(content: Content) -> Step:
    if [content.apply, content.manifests, content.configure].count(None) != 2:
        raise SourceError(f"expected {_OBJECTS}, {_CONFIGURATION} or {_MANIFESTS}")
    return Step(VERBS["apply" if content.configure is None else "configure"], (), content)


def _is_number(word: str, *, negative: bool) -> bool:
    digits = word.removeprefix("-") if negative else word
    return digits.isascii() and digits.isdigit()


def steps_of(written: Sequence[Written], *, files: bool = True) -> list[Step]:
    """Returns the steps in these texts and contents. Raises StepError."""
    steps = []
    for number, each in enumerate(written, 1):
        try:
            steps.append(parsed(each, files=files))
        except SourceError as problem:
            raise StepError(number, problem) from None
    return steps


def _try_add(trial: Trial, step: Step) -> None:
    """Adds nodes with the labels, taints, size and daemon pods of a node."""
    like = step.words[1]
    trial.node(like)
    trial.placing.create(step.number, "nodes")
    add_like(trial.documents, like, step.number, trial.placing.check)


async def _add(real: RealCluster, step: Step) -> str:
    number, like = step.number, step.words[1]
    if number > MOST_ADDED:
        raise SourceError(f"add {number}: expected at most {MOST_ADDED} nodes at once")
    node = await real.node(like)
    listed = await real.access.call("GET", NODES.path(), dict)
    names = {item["metadata"]["name"] for item in listed["items"]}
    free = (name for n in count(1) if (name := f"{like}-copy-{n}") not in names)
    for _, name in zip(range(number), free, strict=False):
        await real.access.call("POST", NODES.path(), dict, node_like(node, name))
    return f"{number} nodes like {like} are added."


def _try_remove(trial: Trial, step: Step) -> None:
    """Removes a node with its pods."""
    (name,) = step.words
    trial.node(name)
    trial.drained.pop(name, None)
    for place in trial.pods_on(name):
        trial.placing.evict(place, f"{name} is removed")
    trial.documents.remove(("Node", "", name))


def _try_drain(trial: Trial, step: Step) -> None:
    """Cordons a node, and evicts all but its daemon pods, as disruption budgets allow."""
    (name,) = step.words
    _mark(trial, name, {"unschedulable": True})
    trial.drain(name)


def _try_cordon(trial: Trial, step: Step) -> None:
    """Closes a node to new pods."""
    _mark(trial, step.words[0], {"unschedulable": True})


def _try_uncordon(trial: Trial, step: Step) -> None:
    """Opens a node to new pods, which ends a drain."""
    (name,) = step.words
    _mark(trial, name, {})
    trial.drained.pop(name, None)


def _mark(trial: Trial, name: str, mark: Document) -> None:
    node = trial.node(name)
    spec = {k: v for k, v in (node.get("spec") or {}).items() if k != "unschedulable"}
    trial.documents.put({**node, "spec": spec | mark})


async def _remove(real: RealCluster, step: Step) -> str:
    (name,) = step.words
    await real.access.call("DELETE", f"{NODES.path()}/{quote(name, safe='')}", dict)
    return f"{name} is deleted."


async def _cordon(real: RealCluster, step: Step) -> str:
    (name,) = step.words
    opened = step.verb.name == "uncordon"
    await real.patch(NODES, "", name, {"spec": {"unschedulable": None if opened else True}})
    return f"{name} takes pods again." if opened else f"{name} is cordoned."


async def _drain(real: RealCluster, step: Step) -> str:
    """Cordons a node, and requests the eviction of each of its pods once, but not of those that
    would come back to it.
    """
    said = await _cordon(real, step)
    name = quote(step.words[0])
    listed = await real.access.call(
        "GET", f"{PODS.path()}?fieldSelector=spec.nodeName={name}", dict
    )
    going = [pod["metadata"] for pod in listed["items"] if not stays_in_drain(pod)]
    held = [metadata for metadata in going if not await real.evict(metadata)]
    said = f"{said[:-1]}, {len(going) - len(held)} of its pods are evicted."
    if held:
        return f"{said} Disruption budgets hold {len(held)} more: drain it again later."
    return said


async def act(access: Calls, button: str, node: str) -> str:
    """Does what one of the page's BUTTONS says to a node, and returns a sentence about it. Raises
    ApiError.
    """
    verb = VERBS["remove" if button == "delete" else button]
    return await RealCluster(access, "").take(Step(verb, (node,)))


def _try_taint(trial: Trial, step: Step) -> None:
    """Adds a taint, or with `-` removes it; `NoExecute` evicts pods."""
    name, text = step.words
    node = trial.node(name)
    taint, added = taint_of(text)
    spec = dict(node.get("spec") or {})
    taints = changed_taints(spec.get("taints") or (), taint, added=added)
    trial.documents.put({**node, "spec": {**spec, "taints": taints}})
    if not added:
        _create_daemons(trial)
    if added and taint.effect == "NoExecute":
        _evict_intolerant(trial, name, taint)


def _create_daemons(trial: Trial) -> None:
    """Creates the pods of DaemonSets that a node can take now."""
    store = trial.documents.classes()
    for place, _ in trial.documents.every("DaemonSet"):
        reconcile(trial.documents, trial.placing, place, store)


def _evict_intolerant(trial: Trial, name: str, taint: Taint) -> None:
    """Evicts pods in the order in which their tolerations of a taint end. As in Kubernetes, the
    first toleration of a pod that matches the taint counts.
    """
    leaving: list[tuple[int, Place]] = []
    for place in trial.pods_on(name):
        tolerations: Any = (trial.documents.at(place)["spec"]).get("tolerations") or ()
        matching = (
            toleration.get("tolerationSeconds")
            for toleration in tolerations
            if tolerates_any([msgspec.convert(toleration, Toleration)], taint)
        )
        seconds = next(matching, 0)
        if seconds is not None:
            leaving.append((max(seconds, 0), place))
    for seconds, place in sorted(leaving):
        after = f", tolerated for {seconds} seconds" if seconds else ""
        trial.placing.evict(place, f"{name} is tainted with {taint.key}:NoExecute{after}")


async def _taint(real: RealCluster, step: Step) -> str:
    name, text = step.words
    taint, added = taint_of(text)
    old = ((await real.node(name)).get("spec") or {}).get("taints") or ()
    taints = {"spec": {"taints": changed_taints(old, taint, added=added)}}
    await real.patch(NODES, "", name, taints)
    return f"{name} is tainted." if added else f"{name} has this taint no longer."


def _try_apply(trial: Trial, step: Step) -> None:
    """Creates or replaces objects, with the pods of workloads, and one of a CronJob."""
    manifests = _manifests(step, trial.reading)
    apply(trial.documents, trial.placing, manifests.objects, manifests.findings)


async def _apply(real: RealCluster, step: Step) -> str:
    for kind, document, _ in _manifests(step).objects:
        metadata = document["metadata"]
        into = metadata.get("namespace") or real.namespace
        if kind.namespaced:
            await real.ensure(NAMESPACES, "", {"metadata": {"name": into}})
        if not await real.ensure(kind, into, document):
            await real.patch(kind, into, metadata["name"], document)
    return "The manifests are applied."


def _manifests(step: Step, reading: Reading = STRICT) -> Manifests:
    content = step.content
    try:
        if content is None:
            return read([file for path in step.words for file in paths_of(path)], reading=reading)
        if content.manifests is not None:
            return read_text(content.manifests.encode(), "manifests")
        return read_objects(content.apply or (), "apply")
    except ManifestError as problem:
        raise SourceError(str(problem)) from None


def _try_scale(trial: Trial, step: Step) -> None:
    """Creates or deletes pods of a workload (`KIND/NAMESPACE/NAME` elsewhere)."""
    documents = trial.documents
    place, field = workload_to_scale(step.words[0], trial.namespace)
    document = documents.at(place)
    documents.put({**document, "spec": {**document["spec"], field: step.number}})
    reconcile(documents, trial.placing, place, documents.classes())


async def _scale(real: RealCluster, step: Step) -> str:
    (of, within, name), field = workload_to_scale(step.words[0], real.namespace)
    kind = next(kind for kind in KINDS if kind.kind == of)
    await real.patch(kind, within, name, {"spec": {field: step.number}})
    return f"{of} {within}/{name} has {step.number} {field}."


def _try_delete(trial: Trial, step: Step) -> None:
    """Deletes a pod."""
    subject = Subject.parse(step.words[0], trial.namespace)
    place = "Pod", subject.namespace, subject.name
    if controller_in(trial.documents.at(place)) is None:
        trial.placing.delete(place)
    else:
        trial.placing.evict(place, "deleted", node_stays=True)


async def _delete(real: RealCluster, step: Step) -> str:
    subject = Subject.parse(step.words[0], real.namespace)
    path = PODS.path(subject.namespace)
    await real.access.call("DELETE", f"{path}/{quote(subject.name, safe='')}", dict)
    return f"{subject.namespace}/{subject.name} is deleted."


def _try_evict(trial: Trial, step: Step) -> None:
    """Evicts pods, each once, as disruption budgets allow."""
    named = (Subject.parse(name, trial.namespace) for name in step.words)
    places = [*dict.fromkeys(("Pod", of.namespace, of.name) for of in named)]
    for place in places:
        trial.documents.at(place)
    for place in places:
        trial.placing.check()
        trial.evict(place)


async def _evict(real: RealCluster, step: Step) -> str:
    named = [Subject.parse(name, real.namespace) for name in step.words]
    held = [
        f"{of.namespace}/{of.name}"
        for of in named
        if not await real.evict({"namespace": of.namespace, "name": of.name})
    ]
    said = f"{len(named) - len(held)} of {counted_words(len(named), 'pod')} evicted."
    return f"{said} Disruption budgets hold {listed(held)}." if held else said


def _try_priority(trial: Trial, step: Step) -> None:
    """Gives a PriorityClass another value, for pods created from then on."""
    place = "PriorityClass", "", step.words[0]
    trial.documents.put({**trial.documents.at(place), "value": step.number})


def _try_weight(trial: Trial, step: Step) -> None:
    """Gives a score plugin another weight from then on; with 0 its scores do not count."""
    trial.configure(with_weight(trial.documents.configuration, step.words[0], step.number))


def _try_configure(trial: Trial, step: Step) -> None:
    """Uses another scheduler configuration from then on."""
    content, gates = step.content, trial.documents.gates
    trial.configure(
        load_file(step.words[0], gates)
        if content is None
        else from_mapping(content.configure, gates)
    )


VERBS = {
    verb.name: verb
    for verb in (
        Verb("add NUMBER like NODE", _try_add, _add, "add nodes", {"NODE": "Like node"}),
        Verb("remove NODE", _try_remove, _remove),
        Verb("drain NODE", _try_drain, _drain),
        Verb("cordon NODE", _try_cordon, _cordon),
        Verb("uncordon NODE", _try_uncordon, _cordon),
        Verb("taint NODE KEY[=VALUE]:EFFECT[-]", _try_taint, _taint),
        Verb("apply FILE", _try_apply, _apply, "apply manifests", content=_OBJECTS),
        Verb("scale KIND/NAME NUMBER", _try_scale, _scale, labels={NUMBER: "Replicas"}),
        Verb("delete [NAMESPACE/]POD", _try_delete, _delete, "delete a pod"),
        Verb(f"evict [NAMESPACE/]POD{MORE}", _try_evict, _evict, "evict a pod"),
        Verb("priority CLASS NUMBER", _try_priority),
        Verb("weight [PROFILE/]PLUGIN NUMBER", _try_weight),
        Verb("configure FILE", _try_configure, content=_CONFIGURATION),
    )
}
OFFERED = [
    OfferedVerb(verb.form, verb.title or verb.name, verb.labels, verb.does is not None)
    for verb in VERBS.values()
]
