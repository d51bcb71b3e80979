"""Makes test/golden/tensorboard: an event file by TensorBoard's own writer and messages, and what is in it.

    python test/golden/make_tensorboard.py                 (tensorboard 2.21, protobuf 7.36)
    python test/golden/make_tensorboard.py read DIR        (DIR: a folder of event files that timeseer wrote)

`read` opens DIR as the TensorBoard page does, and prints the scalars by tag: {tag: [[step, value, wall time], …]}.
"""

import json
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))


def read(directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(directory, size_guidance={'scalars': 0}).Reload()
    print(json.dumps({
        tag: [[one.step, one.value, one.wall_time] for one in found.Scalars(tag)]
        for tag in found.Tags()['scalars']
    }))


def make():
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.record_writer import RecordWriter

    began = 1767225600.125
    events = [
        [began + 1.5, 1, [['train/loss', 0.75], ['train/rewards/précision/mean', -1.0]]],
        [began + 2.25, 2, [['train/loss', 1e-30], ['train/kl', 0.0]]],
        [began + 3.0, 300, [['train/loss', -123456.789]]],
        [began + 4.0, 5_000_000_000, [[f'train/{i}', i / 7] for i in range(40)]],
    ]
    out = os.path.join(here, 'tensorboard')
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, 'events.out.tfevents.1767225600.golden'), 'wb') as file:
        writer = RecordWriter(file)
        head = event_pb2.Event(wall_time=began, file_version='brain.Event:2')
        start = event_pb2.Event(
            wall_time=began, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        )
        for message in (head, start):
            writer.write(message.SerializeToString())
        for wall_time, step, scalars in events:
            values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars]
            message = event_pb2.Event(
                wall_time=wall_time, step=step, summary=summary_pb2.Summary(value=values)
            )
            writer.write(message.SerializeToString())
    with open(os.path.join(out, 'events.json'), 'w') as file:
        json.dump({'began': began, 'events': events}, file)
        file.write('\n')


if sys.argv[1:2] == ['read']:
    read(sys.argv[2])
else:
    make()
