// Package demo runs the order service of examples/orders with relays as processes of their own, makes things go wrong, and
// then judges what came out of it: from the topics as they are, from the tables of effects, and from its own journal of what
// was committed. No figure comes from a counter of the product.
package demo
