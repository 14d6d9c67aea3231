package doctor_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/cmd/app/internal/doctor"
)

// grants make a role that has what its purpose needs and no more.
var grants = map[string]string{
	doctor.ForWriter: "grant select, insert on millrace.outbox to %[1]s; grant select, insert, update on millrace.aggregate_version to %[1]s",
	doctor.ForRelay: `grant select on millrace.outbox, millrace.outbox_pause, millrace.outbox_control, millrace.schema_version to %[1]s;
		grant select, insert on millrace.outbox_receipt to %[1]s; grant select, update on millrace.outbox_shard to %[1]s;
		grant select, insert, update, delete on millrace.outbox_relay, millrace.outbox_parked, millrace.outbox_lane to %[1]s;
		grant select on sequence millrace.outbox_position_seq to %[1]s`,
	doctor.ForConsumer: "grant select, insert, update on millrace.inbox to %[1]s",
	doctor.ForOperator: `grant select on millrace.outbox, millrace.outbox_receipt, millrace.outbox_relay, millrace.outbox_shard, millrace.outbox_lane, millrace.schema_version to %[1]s;
		grant select, update on millrace.outbox_parked, millrace.outbox_control, millrace.inbox to %[1]s;
		grant select, insert on millrace.audit to %[1]s; grant select, insert, delete on millrace.outbox_pause to %[1]s`,
}

func TestRolesWithLeastPrivilegesMissNothingAndEachMissingGrantIsNamed(t *testing.T) {
	for _, c := range []struct{ purpose, revoke, missing string }{
		{doctor.ForWriter, "insert on millrace.outbox", `INSERT on "millrace".outbox`},
		{doctor.ForRelay, "delete on millrace.outbox_lane", `DELETE on "millrace".outbox_lane`},
		{doctor.ForConsumer, "update on millrace.inbox", `UPDATE on "millrace".inbox`},
		{doctor.ForOperator, "insert on millrace.audit", `INSERT on "millrace".audit`},
	} {
		t.Run(c.purpose, func(t *testing.T) {
			p := newPatient(t)
			role := p.role(grants[c.purpose])
			p.config.For = []string{c.purpose}
			before := p.examine()
			require.Equal(t, doctor.OK, before["rights."+c.purpose].Status, before["rights."+c.purpose].Detail)
			require.Equal(t, doctor.OK, before["rights.role"].Status)
			for name, check := range before {
				require.NotEqual(t, doctor.Failed, check.Status, "%s: %s", name, check.Detail)
			}
			if c.purpose == doctor.ForRelay {
				require.Equal(t, doctor.OK, before["schema.sequence"].Status, "a relay looks at it when it starts")
			}
			if c.purpose == doctor.ForOperator {
				require.Equal(t, doctor.Skipped, before["schema.sequence"].Status, "it may not, which newer servers do not say")
				require.Contains(t, before["schema.sequence"].Detail, "may not look at millrace.outbox_position_seq")
			}
			p.execute(fmt.Sprintf("revoke %s from %s", c.revoke, role))
			p.becomes(before, map[string]doctor.Status{"rights." + c.purpose: doctor.Failed})
			require.Contains(t, p.examine()["rights."+c.purpose].Detail, c.missing)
		})
	}
}

func TestWithoutTheAnchorsFunctionsARelayFails(t *testing.T) {
	p := newPatient(t)
	p.role(grants[doctor.ForRelay])
	before := p.examine()
	p.execute("revoke execute on function pg_control_system() from public")
	p.becomes(before, map[string]doctor.Status{"rights.anchor": doctor.Failed})
	require.Contains(t, p.examine()["rights.anchor"].Detail, "pg_control_system()")
	p.config.For = []string{doctor.ForWriter}
	require.Equal(t, doctor.OK, p.examine()["rights.anchor"].Status, "a writer does not need it")
}

func TestTheOwnerIsWarnedOf(t *testing.T) {
	p := newPatient(t)
	role := p.role(grants[doctor.ForRelay])
	before := p.examine()
	p.execute("alter table millrace.outbox owner to " + role)
	p.becomes(before, map[string]doctor.Status{"rights.role": doctor.Warning})
}

// role makes a role and connects as it.
func (p *patient) role(grants string) string {
	p.t.Helper()
	name := "role_" + strings.ReplaceAll(uuid.NewString(), "-", "_")
	p.execute(fmt.Sprintf("create role %[1]s login password 'example-password'; grant usage on schema millrace to %[1]s;"+grants, name))
	p.t.Cleanup(func() { p.execute(fmt.Sprintf("drop owned by %[1]s cascade; drop role %[1]s", name)) })
	p.reopen(func(u *url.URL) { u.User = url.UserPassword(name, "example-password") })
	return name
}
