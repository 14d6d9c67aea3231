// Package handlers turns plain functions into Watermill handlers. They run in the transaction middleware.Dedup began, so
// that what they write and that the event was handled are one commit.
//
//	router.AddConsumerHandler("order-projection", "orders", subscriber,
//		handlers.JSON(func(ctx context.Context, tx *sql.Tx, e OrderPaid) error {
//			return projection.Apply(ctx, tx, e)
//		}))
//
// Errors that no retry can mend, such as a body that does not decode, are permanent and go to the dead letters at once.
package handlers
