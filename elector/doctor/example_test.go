package doctor_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// A service refuses to start on a Redis that can't elect, and logs what could be better.
func ExampleExamine() {
	q, err := elector.Open("redis://127.0.0.1:6379")
	if err != nil {
		panic(err)
	}
	defer q.Close()
	findings, err := doctor.Examine(context.Background(), q, doctor.Config{Lease: 5 * time.Second})
	if err != nil {
		panic(err)
	}
	problems := doctor.Problems(findings) // the most serious first
	for _, f := range problems {
		fmt.Println(f.Level, f.Check, f.Found, "->", f.Advice)
	}
	if len(problems) > 0 && problems[0].Level == doctor.LevelFail {
		fmt.Println("this Redis is not fit for elections")
		os.Exit(1)
	}
}
