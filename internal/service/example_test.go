package service_test

import (
	"context"
	"fmt"
	"os"

	"github.com/millrace-go/millrace/internal/service"
)

// A server that is stopped and started again on its state directory continues where it was, under the same address.
func ExampleStartKafka() {
	dir, err := os.MkdirTemp("", "millrace-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	first, err := service.StartKafka(ctx, service.KafkaConfig{StateDir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.Stop())

	config := first.Config()
	config.Temporary = true // the second stop removes the directory as well
	second, err := service.StartKafka(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(second.Brokers()[0] == first.Brokers()[0])
	fmt.Println(second.Stop())
	// Output:
	// <nil>
	// true
	// <nil>
}
