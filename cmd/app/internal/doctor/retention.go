package doctor

import "context"

var retention = subject{
	names: []string{"retention.window"},
	look: func(context.Context, *examination) ([]Check, error) {
		return []Check{skipped("retention.window", "retention is not configured: nothing is deleted, so no duplicate comes after its inbox row went")}, nil
	},
}
