package forwarder_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

func TestPolicySkipLetsFollowersPassOnRecord(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		publish(t, db, "orders", versions(1, 1, 5)...)
		wire.set(refusing("order-1-2"))
		config := quick()
		config.Policies = map[string]outbox.Policy{"orders": outbox.Skip}
		config.MaxAttempts = 1000
		run(t, db, publisher, config)
		eventually(t, func() bool { return pending(t, db) == 1 }, "followers do not pass")
		eventually(t, func() bool {
			return scan[int](t, db, `select coalesce(max(attempts), 0) from millrace.outbox_parked where event_id = 'order-1-2' and state = 'retrying' and not blocks`) > 2
		}, "it is not tried again")
		require.Equal(t, 1, scan[int](t, db, `select count(*) from millrace.audit where action = 'outbox.skip' and subject = 'order-1-2'`), "one decision, one line")
		wire.set(nil)
		settled(t, db)
		require.Equal(t, []string{"order-1-1", "order-1-3", "order-1-4", "order-1-5", "order-1-2"}, wireOf(wire, "1"))
		once(t, wire)
		cleared(t, db)
	})
}

func TestSkippingOrDiscardingLetsFollowersGoInOrder(t *testing.T) {
	for _, action := range []string{"skip", "discard"} {
		both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
			db := testkit.Migrated(t)
			publish(t, db, "orders", versions(1, 1, 50)...)
			wire.set(refusing("order-1-1"))
			config := quick()
			config.MaxAttempts = 1
			run(t, db, publisher, config)
			isParked(t, db, "order-1-1", "quarantined")
			o := operator(t, db)
			operation := o.Skip
			if action == "discard" {
				operation = o.Discard
			}
			changes, err := operation(t.Context(), of("order-1-1"))
			done(t, changes, err)
			publish(t, db, "orders", versions(1, 51, 60)...)
			eventually(t, func() bool { return pending(t, db) == 1 }, "followers wait")
			want := wireOf(wire, "1")
			require.Len(t, want, 59)
			require.Equal(t, "order-1-2", want[0])
			wire.set(nil)
			if action == "discard" {
				_, err = o.Retry(t.Context(), of("order-1-1"))
				require.NoError(t, err)
				obeyed(t, db)
				require.Equal(t, "discarded", parkedState(t, db, "order-1-1"))
				return
			}
			changes, err = o.Retry(t.Context(), of("order-1-1"))
			done(t, changes, err)
			settled(t, db)
			require.Equal(t, append(want, "order-1-1"), wireOf(wire, "1"))
			once(t, wire)
		})
	}
}

func TestAnEditedEventGoesWhereAndAsItWasEdited(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		publish(t, db, "orders", versions(1, 1, 3)...)
		before := scan[string](t, db, `select o::text from millrace.outbox o where event_id = 'order-1-1'`)
		wire.set(func(topic string, msg *message.Message) error {
			if topic == "orders" {
				return refusing("order-1-1")(topic, msg)
			}
			return nil
		})
		config := quick()
		config.MaxAttempts = 1
		run(t, db, publisher, config)
		isParked(t, db, "order-1-1", "quarantined")
		colour := "red"
		changes, err := operator(t, db).Edit(t.Context(), outbox.Edit{Topic: "oversized", Metadata: map[string]*string{"colour": &colour, "event_type": nil}}, of("order-1-1"))
		done(t, changes, err)
		settled(t, db)
		allInOrder(t, wire, 1, 3)
		wire.mu.Lock()
		defer wire.mu.Unlock()
		require.Equal(t, []string{"oversized", "orders", "orders"}, wire.topics)
		require.Equal(t, "red", wire.got[0].Metadata["colour"])
		require.NotContains(t, wire.got[0].Metadata, "event_type")
		require.Equal(t, "oversized", scan[string](t, db, `select r.topic from millrace.outbox_receipt r join millrace.outbox using (shard, position) where event_id = 'order-1-1'`))
		require.Equal(t, 1, scan[int](t, db, `select count(*) from millrace.outbox_receipt where topic is not null`))
		require.Equal(t, before, scan[string](t, db, `select o::text from millrace.outbox o where event_id = 'order-1-1'`))
	})
}
