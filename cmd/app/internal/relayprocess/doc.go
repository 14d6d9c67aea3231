// Package relayprocess runs relays as processes of their own: this executable started again as "run --roles relay". That is
// how they can be killed and how what they use can be measured.
package relayprocess
