package orders

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// EventLine is a line of the file that "millrace publish" reads.
type EventLine struct {
	EventID          string            `json:"event_id,omitempty"`
	EventType        string            `json:"event_type"`
	AggregateType    string            `json:"aggregate_type"`
	AggregateID      string            `json:"aggregate_id"`
	AggregateVersion int64             `json:"aggregate_version"`
	Metadata         map[string]string `json:"metadata,omitempty"`
	Payload          any               `json:"payload"`
}

// parcelScanned is the payload of a parcel's events.
type parcelScanned struct {
	ParcelID  string    `json:"parcel_id"`
	OrderID   string    `json:"order_id"`
	Place     string    `json:"place"`
	ScannedAt time.Time `json:"scanned_at"`
	Grams     int       `json:"grams"`
}

// GenerateEvents makes n events on parcels that are packed, handed over, scanned and delivered, in order for each parcel and
// mixed among parcels. Half of them have an event_id; the others leave it to be derived. Equal arguments give equal events.
func GenerateEvents(n int, seed uint64) []EventLine {
	random := rand.New(rand.NewPCG(seed, 0))
	steps := []string{"parcel.packed", "parcel.handed_over", "parcel.scanned", "parcel.delivered"}
	places := []string{"Zürich", "Lyon", "Łódź", "Porto", "Århus"}
	at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	type parcel struct {
		number, done, grams int
	}
	var events []EventLine
	var open []*parcel
	for started := 0; len(events) < n; {
		if len(open) < 30 {
			started++
			open = append(open, &parcel{number: started, grams: random.IntN(9_000) + 100})
		}
		i := random.IntN(len(open))
		p := open[i]
		at = at.Add(time.Duration(random.IntN(20_000)) * time.Millisecond)
		id := fmt.Sprintf("parcel-%05d", p.number)
		order := fmt.Sprintf("order-%06d", p.number)
		line := EventLine{
			EventType: steps[p.done], AggregateType: "parcel", AggregateID: id, AggregateVersion: int64(p.done + 1),
			Payload: parcelScanned{
				ParcelID: id, OrderID: order, Place: places[random.IntN(len(places))], ScannedAt: at, Grams: p.grams,
			},
		}
		if random.IntN(2) == 0 {
			line.EventID = uuid.NewSHA1(operationSpace, fmt.Appendf(nil, "%s/%d", id, p.done)).String()
		}
		if p.done == 0 {
			line.Metadata = map[string]string{"correlation_id": order}
		}
		events = append(events, line)
		if p.done++; p.done == len(steps) {
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	return events
}
