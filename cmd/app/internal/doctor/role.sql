-- The connected role. $1 schema. One row: name, whether it is a superuser, whether it has the rights of the outbox's owner, false
-- where there is no outbox. Catalog look-ups.
select r.rolname, r.rolsuper,
       coalesce((select pg_has_role(current_user, c.relowner, 'usage') from pg_class c where c.oid = to_regclass(quote_ident($1) || '.outbox')), false)
  from pg_roles r where r.rolname = current_user
