"""The assembly of the process in detail. `system.py` above shows it as a whole.

The reloader reads the configuration file when it changes and at SIGHUP. The swap takes the new
profiles into use, in these steps:

1. The profiles are made. If a plugin cannot be made, nothing has changed. A profile that is
   configured as before stays the same object, with what its plugins remember.
2. Informers of kinds that only the new plugins look up are started, and it waits until they are
   synced. The new plugins are started. The old profiles go on meanwhile.
3. In one turn, the shared mapping gets the new profiles, and the queue gets `UseProfiles` with
   their order, PreEnqueue and hints. From this turn on, informers send the pods of the new
   scheduler names, and mailboxes are first in, first out; so no pod is sent by the old names and
   handled by the new ones.
4. The pending pods of scheduler names that are new are sent to the queue, slice by slice. A pod
   that changes meanwhile is sent by its informer.
5. The plugins that are no longer in use are closed.

The queue sorts and indexes its pods anew, drops those whose scheduler name is gone, has the new
PreEnqueue decide about the pods of changed profiles, and tries the parked ones again. A pod in
flight is left alone: its attempt and its Placement hold the profile with which it began, so that
Reserve and Unreserve, or Permit and PreBind, are calls of the same objects. It stays in flight
until it is bound or has failed, so that it is never in the queue a second time; if its name is
gone, a failure does not bring it back. The memories of recall belong to a profile object, and are
not used for another. What plugins have reserved for pods under way is in the cache and not in the
plugins, so the new plugins see it.
"""
