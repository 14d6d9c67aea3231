-- Has the relays read again what is parked and what is paused, as soon as the transaction commits. Rows affected: 1.
update {{schema}}.outbox_control set version = version + 1
