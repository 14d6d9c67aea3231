// Package orders is a small order service as a team would write it on millrace: each operation changes the order and
// writes its event in one transaction, and two consumers project what happened.
//
//	service := orders.NewService(db, publisher, orders.Topics{})
//	changed, err := service.Apply(ctx, operation) // committed with its event, or neither
//
// The command "millrace demo" runs it, kills relays under it and counts what arrived. Nothing in here knows of that.
package orders
