package event

// Metadata keys. Each travels as a Kafka header of the same name.
const (
	// IDKey is the event's identity: unique, at most MaxIDLength bytes of UTF-8 without control characters. Deduplication,
	// receipts and look-ups use it and nothing else.
	IDKey = "event_id"
	// TypeKey names what happened, for example "order.paid".
	TypeKey = "event_type"
	// VersionKey is the version of the payload's schema, a positive integer; absent means 1.
	VersionKey = "event_version"
	// KindKey is KindFact or KindCommand; absent means KindFact.
	KindKey = "event_kind"
	// AggregateTypeKey, AggregateIDKey and AggregateVersionKey name the aggregate and the version of it that the event
	// made. All three are present or none.
	AggregateTypeKey    = "aggregate_type"
	AggregateIDKey      = "aggregate_id"
	AggregateVersionKey = "aggregate_version"
	// PartitionKeyKey is the Kafka record key; absent means the aggregate id, and with neither the record has no key.
	// Present and empty is a zero-length key, which is not the same as none. Events of one aggregate must share one key:
	// order is kept per key.
	PartitionKeyKey = "partition_key"
	// CausationIDKey is the event_id of the event or command that led to this one.
	CausationIDKey = "causation_id"
	// CorrelationIDKey is Watermill's own correlation key.
	CorrelationIDKey = "correlation_id"
	// TenantKey names the tenant the event belongs to.
	TenantKey = "tenant"
	// DeliverAtKey is the time before which the event is not to be sent, in RFC 3339. Until then it is outside the order of its
	// aggregate: later events do not wait for it.
	DeliverAtKey = "deliver_at"
	// OriginalIDKey is, on a dead letter, the event_id of the event that failed.
	OriginalIDKey = "original_event_id"
	// TraceparentKey and TracestateKey are the W3C trace context; they are carried on untouched.
	TraceparentKey = "traceparent"
	TracestateKey  = "tracestate"
)

// Kinds of events: a fact has happened, a command asks for something to happen.
const (
	KindFact    = "fact"
	KindCommand = "command"
)
