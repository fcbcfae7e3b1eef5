// Drives a Verilated block with AXI4-Stream ports from arrays, cycle by cycle; sim/compiled.py calls it through ctypes.
//
// Set by the file that includes this one: IN_BYTES and OUT_BYTES, the bytes of tdata; READ_STATUS(unit, values), which
// copies the status outputs. Verilator keeps a port in the low bytes of a word or of an array of words, so on a
// little-endian machine (the only kind for which it has been built so far) ports of all widths are copied as bytes.

#include <cstdint>
#include <cstring>

#include "Vunit.h"
#include "verilated.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ports are copied byte by byte");

namespace {

constexpr int IN_KEEP_BYTES = (IN_BYTES + 7) / 8;
constexpr int OUT_KEEP_BYTES = (OUT_BYTES + 7) / 8;

struct Model {
    VerilatedContext context;
    Vunit unit{&context};
};

// xorshift64 (Marsaglia, Journal of Statistical Software 8(14), 2003): one state for each port.
struct Chance {
    uint64_t state;
    uint32_t share;  // of 65536

    bool operator()() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (state >> 48) < share;
    }
};

// The next evaluation, with new inputs, is also that of the falling edge, on which nothing happens.
void tick(Vunit& unit) {
    unit.aclk = 1;
    unit.eval();
    unit.aclk = 0;
}

}  // namespace

extern "C" {

enum Ending { DONE = 0, INPUT_STALLED = 1, OUTPUT_STALLED = 2, VALID_FELL = 3, PAYLOAD_CHANGED = 4, BEAT_TOO_MANY = 5 };

struct Input {
    const uint8_t* data;
    const uint8_t* keep;
    const uint8_t* last;
    int64_t* cycle;
    int64_t beats;
};

struct Output {
    uint8_t* data;
    uint8_t* keep;
    uint8_t* last;
    int64_t* cycle;
    int64_t beats;  // expected
};

struct Rhythm {
    uint64_t seed;
    uint32_t offer_share, take_share;
    int64_t patience_cycles, drain_cycles;
};

struct Seen {
    int64_t accepted, delivered, cycles;
};

Model* einrtl_new() { return new Model; }

void einrtl_delete(Model* model) { delete model; }

void einrtl_reset(Model* model) {
    Vunit& unit = model->unit;
    unit.aresetn = 0;
    unit.s_axis_tvalid = 0;
    unit.m_axis_tready = 0;
    unit.aclk = 0;
    unit.eval();
    for (int cycle = 0; cycle < 4; ++cycle) tick(unit);
    unit.aresetn = 1;
    unit.eval();
}

void einrtl_status(Model* model, uint64_t* values) { READ_STATUS(model->unit, values); }

int einrtl_run(Model* model, const Input* in, const Output* out, const Rhythm* rhythm, Seen* seen) {
    Vunit& unit = model->unit;
    Chance offer{rhythm->seed | 1, rhythm->offer_share}, take{~rhythm->seed | 1, rhythm->take_share};
    uint8_t held_data[OUT_BYTES], held_keep[OUT_KEEP_BYTES], held_last = 0;
    bool offering = false, waiting = false;
    int64_t idle = 0, drained = 0;
    *seen = Seen{0, 0, 0};
    int ending = DONE;
    for (;; ++seen->cycles) {
        const bool complete = seen->delivered == out->beats && seen->accepted == in->beats;
        if (complete && drained++ == rhythm->drain_cycles) break;
        if (!offering && seen->accepted < in->beats && offer()) {
            offering = true;
            std::memcpy(&unit.s_axis_tdata, in->data + seen->accepted * IN_BYTES, IN_BYTES);
            std::memcpy(&unit.s_axis_tkeep, in->keep + seen->accepted * IN_KEEP_BYTES, IN_KEEP_BYTES);
            unit.s_axis_tlast = in->last[seen->accepted];
        }
        unit.s_axis_tvalid = offering;
        unit.m_axis_tready = complete || take();
        unit.eval();

        if (waiting && !unit.m_axis_tvalid) { ending = VALID_FELL; break; }
        if (waiting && (std::memcmp(held_data, &unit.m_axis_tdata, OUT_BYTES) ||
                        std::memcmp(held_keep, &unit.m_axis_tkeep, OUT_KEEP_BYTES) || held_last != unit.m_axis_tlast)) {
            ending = PAYLOAD_CHANGED;
            break;
        }
        const bool moved_in = offering && unit.s_axis_tready, moved_out = unit.m_axis_tvalid && unit.m_axis_tready;
        waiting = unit.m_axis_tvalid && !unit.m_axis_tready;
        if (waiting) {
            std::memcpy(held_data, &unit.m_axis_tdata, OUT_BYTES);
            std::memcpy(held_keep, &unit.m_axis_tkeep, OUT_KEEP_BYTES);
            held_last = unit.m_axis_tlast;
        }
        if (moved_out) {
            if (seen->delivered == out->beats) { ending = BEAT_TOO_MANY; break; }
            std::memcpy(out->data + seen->delivered * OUT_BYTES, &unit.m_axis_tdata, OUT_BYTES);
            std::memcpy(out->keep + seen->delivered * OUT_KEEP_BYTES, &unit.m_axis_tkeep, OUT_KEEP_BYTES);
            out->last[seen->delivered] = unit.m_axis_tlast;
            out->cycle[seen->delivered++] = seen->cycles;
        }
        if (moved_in) {
            in->cycle[seen->accepted++] = seen->cycles;
            offering = false;
        }
        idle = moved_in || moved_out ? 0 : idle + 1;
        if (!complete && idle > rhythm->patience_cycles) {
            ending = offering ? INPUT_STALLED : OUTPUT_STALLED;
            break;
        }
        tick(unit);
    }
    unit.s_axis_tvalid = 0;
    unit.m_axis_tready = 0;
    unit.eval();
    return ending;
}
}
