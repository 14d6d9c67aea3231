package inbox_test

import (
	"cmp"
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/inbox"
)

func subscribe(t *testing.T, db *sql.DB, config inbox.SubscriberConfig) (*inbox.Subscriber, <-chan *message.Message) {
	t.Helper()
	config.Consumer = "projection"
	config.CloseTimeout = cmp.Or(config.CloseTimeout, 10*time.Millisecond) // many tests leave a message unanswered
	subscriber, err := inbox.NewSubscriber(db, config, nil)
	require.NoError(t, err)
	messages, err := subscriber.Subscribe(t.Context(), "orders")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, subscriber.Close()) })
	return subscriber, messages
}

func TestANackedReplayIsEmittedAgainAndDoesNotHoldUpTheOthers(t *testing.T) {
	store, db := newStore(t)
	for _, id := range []string{"e-1", "e-2"} {
		bury(t, store, paid(id))
		require.NoError(t, store.Replay(t.Context(), "projection", id, operator))
	}
	// With one event a batch, the one that is due longest would hide the other for ever.
	_, messages := subscribe(t, db, inbox.SubscriberConfig{PollInterval: time.Millisecond, BatchSize: 1})
	nacks, others := []time.Time{}, 0
	for len(nacks) < 8 {
		msg := <-messages
		replayed, ok := inbox.ReplayedFromContext(msg.Context())
		require.True(t, ok)
		require.Equal(t, inbox.Replayed{Consumer: "projection", EventID: msg.UUID}, replayed)
		if msg.UUID == "e-2" {
			others++
			msg.Ack()
			continue
		}
		nacks = append(nacks, time.Now())
		msg.Nack()
	}
	require.Positive(t, others)
	require.Greater(t, nacks[7].Sub(nacks[6]), 60*time.Millisecond, "the pauses grow")
}

func TestAReplayInHandMayFinishWhenItsSubscriptionEnds(t *testing.T) {
	for _, answer := range []string{"ack", "nack"} {
		t.Run(answer, func(t *testing.T) {
			store, db := newStore(t)
			for _, id := range []string{"e-1", "e-2"} {
				bury(t, store, paid(id))
				require.NoError(t, store.Replay(t.Context(), "projection", id, operator))
			}
			subscriber, err := inbox.NewSubscriber(db, inbox.SubscriberConfig{Consumer: "projection", CloseTimeout: patience}, nil)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			messages, err := subscriber.Subscribe(ctx, "orders")
			require.NoError(t, err)
			msg := <-messages
			cancel() // as a router does when it begins to close
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				_ = subscriber.Close()
			}()
			select {
			case <-closed:
				require.Fail(t, "Close does not wait for the message in hand")
			case <-messages:
				require.Fail(t, "the subscription does not wait for the message in hand")
			case <-msg.Context().Done():
				require.Fail(t, "the message is cancelled")
			case <-time.After(100 * time.Millisecond):
			}
			if answer == "ack" {
				msg.Ack()
			} else {
				msg.Nack()
			}
			_, open := <-messages
			require.False(t, open, "nothing is emitted after that")
			<-closed
			require.Error(t, msg.Context().Err())
		})
	}
}

func TestOneQueryFetchesNoMoreBytesThanAllowed(t *testing.T) {
	store, db := newStore(t)
	for _, id := range []string{"e-1", "e-2", "e-3"} {
		bury(t, store, paid(id))
		require.NoError(t, store.Replay(t.Context(), "projection", id, operator))
	}
	// Nobody moves the events on: what comes first again shows how long a batch is.
	for bytes, want := range map[int]int{1: 1, 2 * len("body of e-1"): 2, 1000: 3} {
		_, messages := subscribe(t, db, inbox.SubscriberConfig{PollInterval: time.Millisecond, BatchBytes: bytes})
		n := 0
		for msg := <-messages; n == 0 || msg.UUID != "e-1"; msg = <-messages {
			n++
			msg.Ack()
		}
		require.Equal(t, want, n)
	}
}

func TestReplaysOfOthersAndOfLaterAreNotEmitted(t *testing.T) {
	store, db := newStore(t)
	mine, other, elsewhere, later := paid("mine"), paid("other"), paid("elsewhere"), paid("later")
	other.Consumer, elsewhere.Delivery.Topic = "mailer", "mails"
	for _, e := range []inbox.Event{later, other, elsewhere, mine} {
		bury(t, store, e)
		require.NoError(t, store.Replay(t.Context(), e.Consumer, e.ID, operator))
	}
	_, err := db.Exec("update millrace.inbox set due_at = millrace.clock() + interval '1 hour' where event_id = 'later'")
	require.NoError(t, err)
	_, messages := subscribe(t, db, inbox.SubscriberConfig{PollInterval: time.Millisecond})
	for range 3 {
		msg := <-messages
		require.Equal(t, "mine", msg.UUID)
		msg.Ack()
	}
}

func TestClosingASubscriberEndsMessagesAndCanBeRepeated(t *testing.T) {
	store, db := newStore(t)
	bury(t, store, paid("e-1"))
	require.NoError(t, store.Replay(t.Context(), "projection", "e-1", operator))
	subscriber, messages := subscribe(t, db, inbox.SubscriberConfig{})
	msg := <-messages
	require.NoError(t, subscriber.Close())
	require.Error(t, msg.Context().Err())
	_, open := <-messages
	require.False(t, open)
	require.NoError(t, subscriber.Close())
	_, err := subscriber.Subscribe(t.Context(), "orders")
	require.ErrorIs(t, err, inbox.ErrClosed)
}

func TestASubscriptionEndsWithItsContext(t *testing.T) {
	_, db := newStore(t)
	subscriber, err := inbox.NewSubscriber(db, inbox.SubscriberConfig{Consumer: "projection"}, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	messages, err := subscriber.Subscribe(ctx, "orders")
	require.NoError(t, err)
	cancel()
	_, open := <-messages
	require.False(t, open)
	require.NoError(t, subscriber.Close())
}

func TestASubscriberSurvivesAnOutageOfTheDatabase(t *testing.T) {
	store, db := newStore(t)
	bury(t, store, paid("e-1"))
	require.NoError(t, store.Replay(t.Context(), "projection", "e-1", operator))
	_, err := db.Exec("alter table millrace.inbox rename to away")
	require.NoError(t, err)
	_, messages := subscribe(t, db, inbox.SubscriberConfig{PollInterval: time.Millisecond})
	_, err = db.Exec("alter table millrace.away rename to inbox")
	require.NoError(t, err)
	select {
	case msg := <-messages:
		msg.Ack()
	case <-time.After(patience):
		require.Fail(t, "nothing is emitted")
	}
}

func TestASubscriberNamesEveryBadField(t *testing.T) {
	_, err := inbox.NewSubscriber(nil, inbox.SubscriberConfig{PollInterval: -1, BatchSize: -1, BatchBytes: -1, CloseTimeout: -1}, nil)
	for _, field := range []string{"consumer", "PollInterval", "BatchSize", "BatchBytes", "CloseTimeout"} {
		require.ErrorContains(t, err, field)
	}
}
