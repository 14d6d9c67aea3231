-- Which rights the connected role does not have. Three lists side by side: $1 schema, table, function, or sequence for the one
-- of that table's positions; $2 names; $3 rights. Rows: object, right. Catalog look-ups; what is not there raises an error.
select object, privilege
  from unnest($1::text[], $2::text[], $3::text[]) with ordinality r(kind, object, privilege, n)
 where not case kind
       when 'schema' then has_schema_privilege(object, privilege)
       when 'table' then has_table_privilege(object, privilege)
       when 'function' then has_function_privilege(object, privilege)
       else has_sequence_privilege(pg_get_serial_sequence(object, 'position'), privilege) end
 order by n
