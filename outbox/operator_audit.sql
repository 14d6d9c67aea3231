-- Writes down what an operator does, in the transaction that does it.
-- $1 actor, $2 action, $3 reason, $4 a JSON list of subjects with details. Rows affected: as many.
insert into {{schema}}.audit (actor, action, subject, reason, detail)
select $1::text, $2::text, a.subject, $3::text, a.detail
  from jsonb_to_recordset($4::jsonb) a(subject text, detail jsonb)
