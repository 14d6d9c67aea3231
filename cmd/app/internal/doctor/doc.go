// Package doctor looks at everything that events pass on their way, as it is and not as it should be: the effective settings
// of producer and consumer, the broker and its topics, the tables, rights, clock and settings of the database, a pooler in
// between, and who keeps the outbox from going on.
//
//	checks := doctor.Examine(ctx, doctor.Services{DB: db, Kafka: client}, doctor.Config{Schema: "millrace"})
//
// One file a subject. A check changes nothing, apart from a producer id it asks the broker for and a notification that wakes
// relays. It has a bound of its own, and one that can not look is skipped and says why. No detail holds an address with its
// user, a password, the text of a statement or anything of an event but its topic.
package doctor
