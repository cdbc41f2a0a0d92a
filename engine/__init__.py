"""The engine: wakes agents on issues and proves when the instance may sleep.

Map of the package: `domain` decides (pure), `storage` holds the only SQL, `service` has one
function per transaction, `actors` order the work in time, `app` opens and closes everything.
`work`, `clock`, `errors`, `limits` and `settings` stand below all of them. No HTTP in here.
"""
