package doctor

import (
	"database/sql"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Services are what is looked at. Of each either the connection is there, or the error says why it is not.
type Services struct {
	DB            *sql.DB // with lib/pq
	DatabaseError error
	Kafka         *kgo.Client
	KafkaError    error
}
