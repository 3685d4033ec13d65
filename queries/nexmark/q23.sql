SELECT bidder, price, channel, url, bid.extra AS bid_extra,
       person.id AS person_id, name, email_address, credit_card, city, state, person.extra AS person_extra,
       item_name, description, initial_bid, reserve, auction.date_time AS auction_date_time, expires, seller, category,
       auction.extra AS auction_extra
FROM bid JOIN person ON person.id = bidder
     JOIN auction ON seller = bidder
