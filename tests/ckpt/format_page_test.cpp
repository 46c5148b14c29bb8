// docs/checkpoint_format.md is enough to read a checkpoint: a reader in Python that is written from that
// page, by the bytes of the files and by HDF5's names, computing the layout itself.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "tests/ckpt/ckpt_support.h"
#include "tests/ckpt/python.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

constexpr const char* reader = R"(
import json, math, os, re, struct, subprocess, sys
try:
    import h5py
except ImportError:
    h5py = None
folder, expected_path = sys.argv[1:3]
STATES = ['param', 'exp_avg', 'exp_avg_sq']

# The first 512 bytes.
raw = open(folder + '/checkpoint.h5', 'rb').read()
front = raw[:512].rstrip(b'\0').decode()
lines = [line.split(' ') for line in front.split('\n')]
assert lines[0] == ['zero1-lab', 'checkpoint', '1'], lines[0]
assert lines[1] == ['bytes', str(len(raw))]
places = {name: (int(offset), int(length)) for name, offset, length in lines[2:6]}
assert list(places) == ['layout', 'state', 'files', 'slices']
assert lines[6][0] == 'xxh3_128' and len(lines[6][1]) == 32 and lines[7] == ['']
def part(name):
    offset, length = places[name]
    return raw[offset:offset + length]
def xxhsum(data, algorithm):
    try:
        run = subprocess.run(['xxhsum', algorithm, '-'], input=data, stdout=subprocess.PIPE)
    except FileNotFoundError:
        return None
    return re.search(r'\b(?:XXH3_)?([0-9a-f]{16,32})\b', run.stdout.decode()).group(1)
found = xxhsum('\n'.join(front.split('\n')[:6]).encode() + b'\n' + raw[512:], '-H128')
assert found in (None, lines[6][1]), (found, lines[6][1])
layout = json.loads(part('layout'))
state = json.loads(part('state'))
files = list(struct.iter_unpack('<qQ', part('files')))
slices = {row[:4]: row[4:] for row in struct.iter_unpack('<iiiiqqQ', part('slices'))}

# From a parameter to its bytes.
def up(number, multiple):
    return (number + multiple - 1) // multiple * multiple
def lcm(*numbers):
    result = 1
    for number in numbers:
        result = result * number // math.gcd(result, number)
    return result
buffers = {}
for param in layout['params']:
    grad = 'float32' if layout['grad_reduce_in_fp32'] else param['dtype']
    key = (param['dtype'], grad, param.get('expert_parallel', False))
    buffers.setdefault(key, []).append(param)
places_of = {}
ranks = layout['dp_size']
for b, (key, params) in enumerate(buffers.items()):
    n = layout['expert_dp_size'] if key[2] else layout['dp_size']
    ranks = max(ranks, n)
    multiple = lcm(n, 128, 65536) if layout['pad_buckets_for_high_nccl_busbw'] else lcm(n, 128)
    at = start = k = 0
    bucket, buckets = [], []
    def close():
        global at, start, bucket
        end = up(at, multiple)
        buckets.append((start, end, bucket))
        at = start = end
        bucket = []
    for param in reversed(params):
        shared = param.get('shared_embedding', False)
        if shared and bucket:
            close()
        begin = up(at, 64)
        at = begin + math.prod(param['shape'])
        bucket.append((param['name'], begin, at))
        if shared or (layout['bucket_size'] is not None and at - start >= layout['bucket_size']):
            close()
    if bucket:
        close()
    for k, (first, last, inside) in enumerate(buckets):
        for name, begin, end in inside:
            places_of[name] = (b, k, begin, (first, last), n)
assert ranks == len(files)

def rank_path(rank):
    return '%s/rank_%05d.h5' % (folder, rank)
for rank, (length, digest) in enumerate(files):
    assert os.path.getsize(rank_path(rank)) == length

def by_bytes(rank, b, k, s, local):
    offset, elems, digest = slices[rank, b, k, s]
    assert 0 <= local < elems
    with open(rank_path(rank), 'rb') as file:
        file.seek(offset + 4 * local)
        return file.read(4)
opened = {}
def by_hdf5(rank, b, k, s, local):
    if rank not in opened:
        opened[rank] = h5py.File(rank_path(rank), 'r')
        assert opened[rank].attrs['rank'] == rank and opened[rank].attrs['step'] == state['step']
    return opened[rank]['buffers/%d/buckets/%d/%s' % (b, k, STATES[s])][local].tobytes()

shapes = {param['name']: param['shape'] for param in layout['params']}
lines = open(expected_path).read().splitlines()
assert len(lines) == 3 * len(shapes)
for line in lines:
    name, kind, *bits = line.split()
    b, k, w, (s, e), n = places_of[name]
    assert len(bits) == math.prod(shapes[name])
    for i, expected in enumerate(bits):
        shard = (e - s) // n
        rank, local = (w + i - s) // shard, (w + i - s) % shard
        for read in [by_bytes] + ([by_hdf5] if h5py and i % 7 == 0 else []):
            found = struct.unpack('<I', read(rank, b, k, STATES.index(kind), local))[0]
            assert found == int(expected, 16), (name, kind, i)

# The digest of every slice, and of what lies between them.
for rank in range(ranks):
    data = open(rank_path(rank), 'rb').read()
    frame, at = b'', 0
    for key, (offset, elems, digest) in sorted(slices.items(), key=lambda item: item[1]):
        if key[0] != rank or elems == 0:
            continue
        frame += data[at:offset]
        at = offset + 4 * elems
        if rank == 0:
            found = xxhsum(data[offset:at], '-H3')
            assert found in (None, '%016x' % digest), (key, found, digest)
    frame += data[at:]
    found = xxhsum(frame, '-H3')
    assert found in (None, '%016x' % files[rank][1]), (rank, found)
print('read', len(lines), 'tensors of', ranks, 'ranks', 'with' if h5py else 'without', 'h5py')
)";

}  // namespace

TEST_CASE("a reader written from the format's page finds every element") {
  const std::string python = test::python_with("json");
  if (python.empty()) {
    test::skip("no Python: apt install python3");
    return;
  }
  const std::string with_h5py = test::python_with("h5py");
  const test::TemporaryFolder folder;
  const std::string script = folder.write("reader.py", reader);
  int serial = 0;
  const auto check = [&](const LayoutCase& layout_case) {
    const std::string path = folder.path(std::to_string(serial++));
    ckpt::RunState state;
    state.step = 7;
    ckpt::write_checkpoint(path, state, layout_case, test::PlacedValues());
    const std::string values = folder.write("values", test::placed_values_text(layout_case.params));
    const test::Outcome outcome = test::run_command((with_h5py.empty() ? python : with_h5py) + " " + script +
                                                    " " + path + " " + values);
    CHECK_MESSAGE(outcome.status == 0, outcome.output);
    CHECK_MESSAGE(outcome.says("read 24 tensors"), outcome.output);
  };
  check(test::uneven_case(1));
  check(test::uneven_case(3, 100));
  check(test::uneven_case(7, 1));
  check(test::uneven_case(24, 1000));
  LayoutCase experts = test::uneven_case(4, 300);
  experts.params[2].expert_parallel = true;
  experts.params[6].expert_parallel = true;
  experts.options.expert_dp_size = 6;
  experts.options.grad_reduce_in_fp32 = false;
  check(experts);
  LayoutCase padded = test::uneven_case(2);
  padded.options.pad_buckets_for_high_nccl_busbw = true;
  check(padded);
}
