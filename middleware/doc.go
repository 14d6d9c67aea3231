// Package middleware has the router middleware that make a handler's effect happen once and a failed event end up where a
// person can see it. Each works alone on any Watermill router; together they go in this order, the first outermost:
//
//	router.AddMiddleware(
//		middleware.Drain,                                                  // a shutdown is not a failure
//		middleware.DeadLetter{DB: db, Publisher: outboxPublisher}.Middleware, // what failed is kept, then acknowledged
//		middleware.Retry{}.Middleware,                                     // a few attempts in place
//		middleware.Timeout(30*time.Second),                                // for each attempt
//		middleware.Recoverer,                                              // a panic is an error
//		middleware.Dedup{DB: db, Outbox: outboxPublisher}.Middleware,      // one transaction: inbox row, effect, new events
//	)
//
// Middleware of your own goes before them or after them: before, it sees a delivery once; after, each attempt, inside the
// transaction. An error is one of three things: permanent (event.Permanent), infrastructure (inbox.IsInfrastructure), which
// is never dead-lettered, or transient.
package middleware
