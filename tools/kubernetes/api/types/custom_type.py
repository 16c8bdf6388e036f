"""What a CustomResourceDefinition says of one version of its kind."""

from __future__ import annotations

import msgspec

from .api_documents import Document
from .structural import Structural
from .webhook_conversion import ConversionWebhook


class CustomType(msgspec.Struct, frozen=True, eq=False):
    """One version of a custom kind.

    `definition` is the name of the definition, `version` its entry in spec.versions; without a
    `schema` every field is kept. `conversion` is spec.conversion, `deprecation` the warning of
    every answer. `stored_version` is the apiVersion in which objects are stored, `stored_schema`
    the schema of that version. `webhook` converts the objects; without one, their apiVersion alone
    changes.
    """

    definition: str
    singular: str
    list_kind: str
    categories: tuple[str, ...]
    version: Document
    schema: Structural
    conversion: Document
    is_served: bool
    stored_version: str
    stored_schema: Structural
    deprecation: str = ""
    webhook: ConversionWebhook | None = None

    @property
    def scale(self) -> Document | None:
        """The paths of replicas and selector, if the version has the subresource scale."""
        scale: Document | None = (self.version.get("subresources") or {}).get("scale")
        return scale

    @property
    def columns(self) -> list[Document]:
        return self.version.get("additionalPrinterColumns") or []

    @property
    def selectable(self) -> list[str]:
        """The fields that field selectors may name, such as `spec.color`."""
        fields = self.version.get("selectableFields") or ()
        return [field["jsonPath"].removeprefix(".") for field in fields]
