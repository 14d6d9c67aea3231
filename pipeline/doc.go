// Package pipeline composes the relay and the consumers on one Watermill router, in the right order, and stops them in the
// right order. It is a convenience: every part works alone on a router of the user's.
//
//	p, err := pipeline.New(db, pipeline.Config{Brokers: brokers}, logger)
//	err = p.Handle("order-projection", "orders", handlers.JSON(project))
//	err = p.Run(ctx)
package pipeline
